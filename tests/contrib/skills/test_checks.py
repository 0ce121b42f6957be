"""System checks: what hosts refuse, and what misleads a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.checks import CheckMessage
from pytest_django import Settings

from django_mcp import Server, registry
from django_mcp.contrib.skills import files, finding, skill
from django_mcp.contrib.skills.checks import check_skills
from tests.contrib.skills.conftest import Folder
from tests.spec import spec


@pytest.fixture
def server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    monkeypatch.setattr(registry, "default", server)
    return server


@pytest.fixture
def findings(folder: Folder, server: Server) -> Callable[..., dict[str, list[CheckMessage]]]:
    """Checks the skills of the test, and returns what is found by the end of its id."""

    def find(*paths: str) -> dict[str, list[CheckMessage]]:
        skill(*paths, server=server)
        found: dict[str, list[CheckMessage]] = {}
        for message in check_skills(None):
            if any(path in message.msg for path in paths):
                found.setdefault(str(message.id).rpartition(".")[2], []).append(message)
        return found

    return find


def test_skill_of_the_right_form_has_no_findings(
    folder: Folder, findings: Callable[..., object]
) -> None:
    folder.skill(
        "checked",
        "See [a](reference/a.md), [the folder](reference), [a heading](#x), [a page](https://x.org),"
        ' [quoted](<a b.md> "A b"), [encoded](a%20b.md) and `[no](link.md)`.\n\n'
        "```\n[no](link.md)\n```\n\n[r]: reference/a.md\n",
    )
    folder.write("checked/reference/a.md", "Back to [start](../SKILL.md), or [start](SKILL.md).")
    folder.write("checked/a b.md", "A b")
    assert findings("checked") == {}


@spec("SK-11", "SK-12")
@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("# No front matter", "E001"),
        ("---\nname: other\ndescription: x\n---\n", "E002"),
        ("---\nname: Checked\ndescription: x\n---\n", "E002"),
        ("---\nname: checked\n---\n", "E003"),
    ],
)
def test_refused_skill_is_an_error(
    folder: Folder,
    findings: Callable[..., dict[str, list[CheckMessage]]],
    content: str,
    code: str,
) -> None:
    folder.write("checked/SKILL.md", content)

    found = findings("checked")
    assert [*found] == [code]
    assert "is not served" in found[code][0].msg
    assert found[code][0].hint


@spec("SK-26")
@pytest.mark.parametrize(("files_of_it", "size"), [(files.MAX_FILES, 1), (2, files.MAX_BYTES // 2)])
def test_skill_beyond_the_limits_is_an_error(
    folder: Folder,
    findings: Callable[..., dict[str, list[CheckMessage]]],
    files_of_it: int,
    size: int,
) -> None:
    folder.skill("checked")
    for number in range(files_of_it):
        folder.write(f"checked/{number}.txt", b"x" * size)

    assert [*findings("checked")] == ["E004"]


@pytest.mark.parametrize("target", ["other.md", "../other.md", "reference/", "/etc/passwd", "A.md"])
def test_link_to_nothing_is_an_error(
    folder: Folder, findings: Callable[..., dict[str, list[CheckMessage]]], target: str
) -> None:
    folder.skill("checked", f"See [it]({target}).\n")
    folder.write("checked/a.md", "A")
    folder.write("other.md", "outside")

    found = findings("checked")
    assert [*found] == ["E007"]
    assert repr(target) in found["E007"][0].msg


@pytest.mark.parametrize(
    "body",
    [
        "1. Run:\n\n   ```python\n   handlers[name](request)\n   ```\n",
        "> ~~~\n> [no](link.md)\n> ~~~\n",
        "````md\n```\n[no](link.md)\n```\n[no](other.md)\n````\n",
        "Write ``[no](link.md)``.\n",
        "Ask a colleague[^1].\n\n[^1]: Only where the amount is large.\n",
        "See [it](terms_(old).md).\n",
    ],
    ids=["list", "quotation", "long_fence", "long_mark", "footnote", "parentheses"],
)
def test_code_and_footnotes_have_no_links(
    folder: Folder, findings: Callable[..., object], body: str
) -> None:
    folder.skill("checked", body)
    folder.write("checked/terms_(old).md", "Terms")

    assert findings("checked") == {}


def test_link_after_code_is_checked(
    folder: Folder, findings: Callable[..., dict[str, list[CheckMessage]]]
) -> None:
    folder.skill("checked", "```\ncode\n```\n\nWrite ```x``` or `y`, see [it](z.md).\n\n```\n```\n")

    assert [*findings("checked")] == ["E007"]


@pytest.mark.parametrize(
    ("body", "near"),
    [
        ("Use `find_order`.", "find_orders"),
        ("Use `find_order(number)`.", "find_orders"),
        ("Then call `send_letter`.", None),
        ("The `send_letter` tool sends it.", None),
    ],
)
def test_tool_that_does_not_exist_is_a_warning(
    folder: Folder,
    server: Server,
    findings: Callable[..., dict[str, list[CheckMessage]]],
    body: str,
    near: str | None,
) -> None:
    @server.tool
    def find_orders() -> str:
        """Find orders."""
        return ""

    folder.skill("checked", f"{body} Use `find_orders` with `max_age`, `some_field` and `x`.\n")
    found = findings("checked")
    assert [*found] == ["W004"]
    (warning,) = found["W004"]
    assert (near or "mcp_show") in str(warning.hint)


def test_names_of_tools_are_not_compared_on_a_server_without_any(
    folder: Folder, findings: Callable[..., object]
) -> None:
    folder.skill("checked", "Call `send_letter`.\n")
    assert findings("checked") == {}


def test_file_larger_than_a_result_is_an_error(
    folder: Folder, settings: Settings, findings: Callable[..., dict[str, list[CheckMessage]]]
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MAX_RESULT_SIZE": 1000}
    folder.skill("checked")
    folder.write("checked/text.txt", b"x" * 900)
    folder.write("checked/bytes.bin", b"\xff" * 900)
    folder.write("checked/more.txt", b"x" * 1001)

    found = findings("checked")["E006"]
    assert [message.msg.split()[0] for message in found] == ["bytes.bin", "more.txt"]


@spec("SK-16")
def test_names_that_two_skills_have_are_a_warning(
    folder: Folder, findings: Callable[..., dict[str, list[CheckMessage]]]
) -> None:
    folder.skill("one/checked")
    folder.skill("two/checked")

    findings("one", "two")
    assert [each.id for each in check_skills(None)] == ["django_mcp_skills.W003"]


def test_same_path_in_two_folders_is_an_error(
    folder: Folder, findings: Callable[..., dict[str, list[CheckMessage]]]
) -> None:
    folder.skill("refunds")

    (error,) = findings("refunds")["E005"]
    assert str(folder.root / "refunds") in error.msg
    assert "helpdesk" in error.msg


def test_what_is_left_out_is_a_warning(
    folder: Folder, findings: Callable[..., dict[str, list[CheckMessage]]]
) -> None:
    folder.skill("checked")
    (folder.root / "checked" / "link.md").symlink_to(folder.root / "checked" / "SKILL.md")
    folder.write("checked-too/skill.md", "---\nname: checked-too\ndescription: x\n---\n")

    found = findings("checked")["W002"]
    assert "skill.md is not served: its name is not SKILL.md" in found[0].msg + found[1].msg
    assert "a symbolic link" in found[0].msg + found[1].msg


def test_folder_that_does_not_exist_is_a_warning(settings: Settings, folder: Folder) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": [folder.root / "nothing"]}

    assert [each.id for each in check_skills(None)] == ["django_mcp_skills.W001"]


def test_folder_that_cannot_be_searched_is_a_warning_and_others_are_served(
    settings: Settings, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_large = tmp_path / "large"
    folders = [too_large, folder.root]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": folders}
    monkeypatch.setattr(files, "MAX_ENTRIES", 100)
    too_large.mkdir()
    for number in range(101):
        (too_large / str(number)).touch()
    folder.skill("checked")

    (warning,) = check_skills(None)
    assert (warning.id, str(too_large) in warning.msg) == ("django_mcp_skills.W005", True)
    assert "checked" in finding.find().skills


def test_check_is_quiet_without_the_app(settings: Settings, folder: Folder) -> None:
    apps = [name for name in settings.INSTALLED_APPS if name != "django_mcp.contrib.skills"]
    settings.INSTALLED_APPS = apps
    folder.write("checked/SKILL.md", "broken")
    assert check_skills(None) == []
