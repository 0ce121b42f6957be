"""What a client tries to read that is no file of a skill, or of none that it may use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.contrib.skills import files, finding, skill
from django_mcp.testing import Client, ErrorResponse
from tests.contrib.skills.conftest import Folder, uris
from tests.spec import spec

SECRET = "the secret of the site"


@pytest.fixture
def refunds(folder: Folder, server: Server) -> Folder:
    """A skill, and a secret beside the folder of skills."""
    (folder.root.parent / "secret.txt").write_text(SECRET)
    folder.skill("refunds")
    folder.write("refunds/reference/a.md", "A")
    skill("refunds", server=server)
    return folder


async def answers(client: Client, uri: str) -> list[int | None]:
    """The codes with which each method that takes a URI refuses it."""
    codes: list[int | None] = []
    for method in ("resources/read", "skills/get", "resources/directory/read"):
        with pytest.raises(ErrorResponse) as caught:
            await client.request(method, {"uri": uri})
        assert SECRET not in str(caught.value)
        codes.append(caught.value.code)
    return codes


PATHS = (
    "../secret.txt",
    "../../secret.txt",
    "reference/../../../secret.txt",
    "reference/../reference/a.md",
    "./reference/a.md",
    "reference//a.md",
    "/etc/passwd",
    "//etc/passwd",
    "..\\..\\secret.txt",
    "reference\\a.md",
    "SKILL.md/",
    "SKILL.md/.",
    "reference/a.md?x=1",
    "reference/a.md#x",
    "reference/a.md%00",
    "reference/a.md%00.png",
)


@spec("skills-01")
@pytest.mark.parametrize("path", PATHS)
async def test_path_leads_to_nothing_outside_of_the_manifest(
    client_for: Any, refunds: Folder, server: Server, path: str
) -> None:
    async with client_for(server) as client:
        codes = await answers(client, f"skill://refunds/{path}")
    assert {*codes} <= {-32602, -32002}


ENCODED = (
    "%2e%2e/%2e%2e/secret.txt",
    "%2E%2E%2F%2E%2E%2Fsecret.txt",
    "..%2f..%2fsecret.txt",
    "..%5c..%5csecret.txt",
    "%252e%252e%252f%252e%252e%252fsecret.txt",
    "%c0%ae%c0%ae/%c0%ae%c0%ae/secret.txt",
    "reference%2fa.md",
    "reference/%61.md",
    "%72eference/a.md",
    "SKILL%2emd",
    "skill.md",
    "REFERENCE/a.md",
)


@spec("skills-02", "SK-14")
@pytest.mark.parametrize("path", ENCODED)
async def test_file_has_one_spelling(
    client_for: Any, refunds: Folder, server: Server, path: str
) -> None:
    async with client_for(server) as client:
        codes = await answers(client, f"skill://refunds/{path}")
    assert {*codes} <= {-32602, -32002}


@spec("skills-03")
async def test_symbolic_links_are_neither_listed_nor_followed(
    client_for: Any, refunds: Folder, server: Server
) -> None:
    root = refunds.root / "refunds"
    (root / "link.txt").symlink_to(refunds.root.parent / "secret.txt")
    (root / "out").symlink_to(refunds.root.parent)
    (root / "in.md").symlink_to(root / "reference" / "a.md")
    (refunds.root / "elsewhere").symlink_to(root)

    async with client_for(server) as client:
        (entry,) = (await client.request("skills/list", {}))["skills"]
        assert [each["uri"] for each in entry["resources"]] == [
            "skill://refunds/SKILL.md",
            "skill://refunds/reference/a.md",
        ]
        for path in ("link.txt", "out", "out/secret.txt", "in.md"):
            await answers(client, f"skill://refunds/{path}")
        await answers(client, "skill://elsewhere/SKILL.md")
    finding.find.cache_clear()
    left_out = finding.find().left_out
    assert {Path(path).name for path in left_out} == {"link.txt", "out", "in.md", "elsewhere"}


def test_link_that_replaces_a_file_is_not_opened(refunds: Folder) -> None:
    file = files.listing(refunds.root / "refunds").files["reference/a.md"]
    file.path.unlink()
    file.path.symlink_to(refunds.root.parent / "secret.txt")

    with pytest.raises(OSError, match="symbolic links"):
        file.read()


HIDDEN = (
    ".env",
    ".git/config",
    ".hidden/a.md",
    "__pycache__/a.cpython-312.pyc",
    "run.pyc",
    "notes.md~",
    "#notes.md#",
    ".notes.md.swp",
    "notes.swp",
    "notes.md.bak",
    "notes.md.orig",
    "draft.tmp",
    "Thumbs.db",
    ".DS_Store",
)


@spec("skills-04")
async def test_hidden_files_caches_and_backups_are_not_served(
    client_for: Any, refunds: Folder, server: Server
) -> None:
    for path in HIDDEN:
        refunds.write(f"refunds/{path}", SECRET)
    refunds.write("refunds/.secret/SKILL.md", "---\nname: .secret\ndescription: No\n---\n")

    async with client_for(server) as client:
        (entry,) = (await client.request("skills/list", {}))["skills"]
        assert len(entry["resources"]) == 2
        children = await client.request("resources/directory/read", {"uri": "skill://refunds"})
        assert [each["name"] for each in children["resources"]] == ["refunds", "reference"]
        for path in HIDDEN:
            quoted = finding.directory_uri(f"refunds/{path}")
            await answers(client, quoted)


async def test_pipe_is_no_file(refunds: Folder, server: Server) -> None:
    os.mkfifo(refunds.root / "refunds" / "pipe")

    async with Client(server) as client:
        await answers(client, "skill://refunds/pipe")
        (entry,) = (await client.request("skills/list", {}))["skills"]
    assert len(entry["resources"]) == 2


@pytest.mark.django_db(transaction=True)
class TestCallers:
    """A skill for staff, with one below it for superusers, and an open one."""

    @pytest.fixture
    def server(self, folder: Folder, server: Server) -> Server:
        folder.skill("staff")
        folder.write("staff/a.md", "A")
        folder.skill("staff/root")
        folder.write("staff/root/b.md", "B")
        folder.skill("open")
        folder.skill("open/closed")
        folder.write("open/closed/c.md", SECRET)
        skill("staff", server=server, permission="staff_member", prompt=True)
        skill("staff/root", server=server, permission="superuser")
        skill("open", server=server)
        skill("open/closed", server=server, permission=lambda frame: False)
        return server

    @spec("skills-05")
    async def test_hidden_skill_is_unknown_to_every_method(
        self, client_for: Any, server: Server
    ) -> None:
        async with client_for(server) as client:
            assert await uris(client) == ["skill://open/SKILL.md"]
            assert [each["name"] for each in await client.list_resources()] == ["open"]
            assert await client.list_prompts() == []
            for hidden, unknown in (
                ("skill://staff/SKILL.md", "skill://stuff/SKILL.md"),
                ("skill://staff/a.md", "skill://stuff/a.md"),
                ("skill://staff", "skill://stuff"),
                ("skill://staff/root/b.md", "skill://stuff/root/b.md"),
            ):
                assert await told(client, hidden) == [
                    each.replace("stuff", "staff") for each in await told(client, unknown)
                ]

    @spec("skills-06")
    async def test_hidden_skill_is_not_seen_below_one_that_is_open(
        self, client_for: Any, server: Server
    ) -> None:
        async with client_for(server) as client:
            (entry,) = (await client.request("skills/list", {}))["skills"]
            assert [each["uri"] for each in entry["resources"]] == ["skill://open/SKILL.md"]
            result = await client.request("resources/directory/read", {"uri": "skill://open"})
            assert [each["uri"] for each in result["resources"]] == ["skill://open/SKILL.md"]
            for path in ("closed", "closed/c.md", "closed/SKILL.md"):
                await answers(client, f"skill://open/{path}")

    @pytest.mark.parametrize(
        ("is_superuser", "expected"),
        [
            (False, ["skill://open/SKILL.md", "skill://staff/SKILL.md"]),
            (
                True,
                [
                    "skill://open/SKILL.md",
                    "skill://staff/root/SKILL.md",
                    "skill://staff/SKILL.md",
                ],
            ),
        ],
    )
    async def test_permission_of_a_skill_is_its_own(
        self, server: Server, is_superuser: bool, expected: Sequence[str]
    ) -> None:
        user = await User.objects.acreate(username="ann", is_staff=True, is_superuser=is_superuser)
        async with Client(server, user=user) as client:
            assert await uris(client) == expected
            staff = await client.request("skills/get", {"uri": "skill://staff/SKILL.md"})
            read = await client.request("resources/read", {"uri": "skill://staff/a.md"})
            assert [each["name"] for each in await client.list_prompts()] == ["staff"]
        assert read["contents"][0]["text"] == "A"
        assert len(staff["skill"]["resources"]) == (4 if is_superuser else 2)

    @spec("skills-07")
    async def test_switched_off_skill_is_unknown_with_its_files(self, server: Server) -> None:
        user = await User.objects.acreate(username="ann", is_staff=True)
        async with Client(server, user=user) as client:
            await client.request("resources/read", {"uri": "skill://staff/a.md"})
            server.components.switch_off([("resource", "skill://staff/SKILL.md")])
            await answers(client, "skill://staff/a.md")
            assert await uris(client) == ["skill://open/SKILL.md"]


async def told(client: Client, uri: str) -> list[str]:
    """What each method says about a URI."""
    said = []
    for method in ("resources/read", "skills/get", "resources/directory/read"):
        with pytest.raises(ErrorResponse) as caught:
            await client.request(method, {"uri": uri})
        said.append(f"{caught.value.code} {caught.value} {caught.value.data}")
    return said


async def test_challenged_skill_is_listed_and_asks_to_log_in(
    folder: Folder, server: Server
) -> None:
    folder.skill("refunds")
    folder.write("refunds/a.md", "A")
    skill("refunds", server=server, permission="login_required", when_denied="challenged")

    async with Client(server) as client:
        assert await uris(client) == ["skill://refunds/SKILL.md"]
        for method, uri in (
            ("skills/get", "skill://refunds/SKILL.md"),
            ("resources/read", "skill://refunds/SKILL.md"),
            ("resources/read", "skill://refunds/a.md"),
            ("resources/directory/read", "skill://refunds"),
        ):
            with pytest.raises(ErrorResponse) as caught:
                await client.request(method, {"uri": uri})
            assert "authenticat" in str(caught.value).lower()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("groups=orders", ["skill://refunds/SKILL.md"]),
        ("groups=other", ["skill://returns/SKILL.md"]),
        ("read_only=1", ["skill://refunds/SKILL.md", "skill://returns/SKILL.md"]),
    ],
)
async def test_connection_selects_skills_by_their_group(
    folder: Folder, server: Server, query: str, expected: Sequence[str]
) -> None:
    for name, group in (("refunds", "orders"), ("returns", "other")):
        folder.skill(name)
        folder.write(f"{name}/a.md", name)
        skill(name, server=server, group=group)

    async with Client(server, transport="http", query=query) as client:
        assert await uris(client) == expected
        for name in ("refunds", "returns"):
            uri = f"skill://{name}/a.md"
            if f"skill://{name}/SKILL.md" in expected:
                await client.request("resources/read", {"uri": uri})
            else:
                await answers(client, uri)
