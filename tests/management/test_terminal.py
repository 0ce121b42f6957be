"""Commands at a terminal: questions of tools, progress bars, and the choice of a client."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.management.base import CommandError

from django_mcp import Frame, Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.management import terminal
from tests.rows import rows

Type = Callable[[str], None]

ORDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "pieces": {"type": "integer", "default": 1},
        "size": {"type": "string", "enum": ["s", "m"]},
        "gift": {"type": "boolean"},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
    },
    "required": ["name", "pieces", "size"],
}


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Have these lines typed at a terminal."""

    def answer(lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        monkeypatch.setattr(terminal, "is_interactive", lambda: True)

    return answer


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("shop", authenticators=[AnonymousAuthentication()])

    @server.tool(requests_input=True)
    def order(frame: Frame) -> str:
        answer = frame.client.elicit("What do you want?", ORDER)
        return f"{answer.action} {dict(answer.content or {})}"

    @server.tool
    def work(frame: Frame) -> str:
        frame.client.progress(1, total=2, message="half")
        return "done"

    @server.tool(permission="auth.view_user")
    def count() -> dict[str, int]:
        return {"number": 1}

    monkeypatch.setattr(registry.registered, "servers", {"mcp": registry.default, "shop": server})


def call(capsys: pytest.CaptureFixture[str], name: str) -> tuple[str, str]:
    call_command("mcp_call", name, server="shop")
    printed = capsys.readouterr()
    return printed.out.rstrip("\n"), printed.err


@pytest.mark.django_db
def test_question_of_a_tool_is_answered_field_by_field(
    capsys: pytest.CaptureFixture[str], type_in: Type
) -> None:
    # An empty line is no value for a required field, nor are words a number or another size.
    type_in("\nAnn\nmany\n3\nxl\nm\n\nred, blue\ny\n")

    result, shown = call(capsys, "order")

    content = {"name": "Ann", "pieces": 3, "size": "m", "colours": ["red", "blue"]}
    assert result == f"accept {content}"
    assert "What do you want?" in shown
    assert "Your name" in shown
    assert "pieces (Enter for 1)" in shown
    assert "size (s, m)" in shown
    assert "gift (optional)" in shown
    assert shown.count("A value is required.") == 1
    assert shown.count("Enter a whole number.") == 1
    assert shown.count("Enter one of these values.") == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("lines", "action"), [("Ann\n\ns\ny\n\nn\n", "decline"), ("Ann\n", "cancel")]
)
def test_answer_is_declined_or_cancelled(
    capsys: pytest.CaptureFixture[str], type_in: Type, lines: str, action: str
) -> None:
    type_in(lines)

    assert call(capsys, "order")[0] == f"{action} {{}}"


def test_progress_is_a_bar(capsys: pytest.CaptureFixture[str], type_in: Type) -> None:
    type_in("")

    result, shown = call(capsys, "work")

    assert result == "done"
    assert "[############............] 1/2 half" in shown


@rows(
    ("params", "line"),
    [
        ({"progress": 3}, "3"),
        ({"progress": 3, "message": "lines"}, "3 lines"),
        ({"progress": 5, "total": 4}, "[########################] 5/4"),
        ({"progress": 0.5, "total": 0}, "0.5"),
    ],
)
def test_progress_line(params: Any, line: str) -> None:
    assert terminal.progress_bar(params) == line


@pytest.mark.parametrize(
    ("lines", "titles"),
    [("2\n", ["Claude Desktop"]), ("0\n99\nx\n1\n", ["Claude Code"]), ("\n", None), ("", None)],
)
def test_config_is_printed_for_the_chosen_client(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    titles: list[str] | None,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    monkeypatch.setattr(terminal, "is_interactive", lambda: True)

    call_command("mcp_config", server="shop", url="https://example.org/mcp")

    printed = capsys.readouterr().out
    headings = {line[2:].partition(",")[0] for line in printed.splitlines() if line[:2] == "# "}
    if titles is None:
        assert len(headings) > 5
    else:
        assert headings == set(titles)


@pytest.mark.django_db
def test_show_lists_what_a_user_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    ann = User.objects.create_user("ann")
    call_command("mcp_show", server="shop", user="ann")
    without = capsys.readouterr().out
    ann.user_permissions.add(Permission.objects.get(codename="view_user"))
    call_command("mcp_show", server="shop", user="ann")

    assert " count " not in without
    assert " work " in without
    assert " count " in capsys.readouterr().out
    with pytest.raises(CommandError, match="There is no user 'bob'"):
        call_command("mcp_show", server="shop", user="bob")


def test_show_prints_details_as_a_revision_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mcp_show", "count", server="shop", revision="2024-11-05")
    old = capsys.readouterr().out
    call_command("mcp_show", "count", server="shop")

    assert "outputSchema" not in old
    assert "outputSchema" in capsys.readouterr().out
