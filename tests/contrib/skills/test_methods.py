"""The three methods of skills, in sessions and without, over every transport."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import CacheHint, Server
from django_mcp.contrib.skills import finding, skill
from django_mcp.contrib.skills.extension import NAME
from django_mcp.testing import Client, ErrorResponse
from tests.contrib.skills.conftest import Folder, uris
from tests.spec import spec

MISSING = "skill://nothing/SKILL.md"


async def refused(client: Client, method: str, **params: Any) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        await client.request(method, params)
    return caught.value


async def manifest(client: Client, uri: str) -> dict[str, dict[str, Any]]:
    entry = (await client.request("skills/get", {"uri": uri}))["skill"]
    return {each["uri"]: each for each in entry["resources"]}


@spec("SK-01", "SK-02")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_server_with_skills_declares_them_and_resources(
    folder: Folder, server: Server, version: str
) -> None:
    folder.skill("refunds")
    skill("refunds", server=server)

    async with Client(server, version=version) as client:
        result = client.initialize_result or await client.request("server/discover", {})
    declared = result["capabilities"]
    assert declared["extensions"][NAME] == {"directoryRead": True}
    assert "resources" in declared


async def test_server_without_skills_knows_none_of_the_methods(server: Server) -> None:
    async with Client(server) as client:
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            assert (await refused(client, method, uri=MISSING)).code == -32601


@spec("SK-03", "SK-20", "SK-21", "SK-22", "SK-23", "SK-24", "SK-30")
async def test_list_has_the_whole_manifest(client_for: Any, folder: Folder, server: Server) -> None:
    text = folder.skill("refunds", license="MIT", metadata="{version: 1.10, on: 2026-01-01}")
    image = folder.write("refunds/assets/a b.png", b"\x89PNG\xff")
    skill("refunds", server=server)

    async with client_for(server) as client:
        result = await client.request("skills/list", {})
        (entry,) = result["skills"]
        is_stateless = client.revision.version == "2026-07-28"
    assert entry == {
        "uri": "skill://refunds/SKILL.md",
        "frontmatter": {
            "name": "refunds",
            "description": "How to do refunds",
            "license": "MIT",
            "metadata": {"version": 1.1, "on": "2026-01-01"},
        },
        "resources": [
            described("skill://refunds/SKILL.md", text.read_bytes()),
            described("skill://refunds/assets/a%20b.png", image.read_bytes()),
        ],
    }
    assert (result.get("resultType") == "complete") is is_stateless
    assert ("ttlMs" in result) is is_stateless
    assert ("cacheScope" in result) is is_stateless


def described(uri: str, data: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(data)}


@spec("SK-34", "SK-35", "SK-36")
async def test_get_answers_for_each_skill_and_for_nothing_else(
    client_for: Any, folder: Folder, server: Server
) -> None:
    folder.skill("refunds")
    folder.write("refunds/a.md", "A")
    skill("refunds", server=server)

    async with client_for(server) as client:
        (entry,) = (await client.request("skills/list", {}))["skills"]
        result = await client.request("skills/get", {"uri": entry["uri"]})
        assert result["skill"] == entry
        assert "nextCursor" not in result
        for uri in (MISSING, "skill://refunds/a.md", "skill://refunds", "refunds"):
            error = await refused(client, "skills/get", uri=uri)
            assert error.code == -32602
            assert uri in str(error)


@spec("SK-37", "SK-38")
async def test_each_file_of_a_manifest_is_read_as_its_bytes(
    client_for: Any, folder: Folder, server: Server
) -> None:
    files = {
        "refunds/windows.md": b"\xef\xbb\xbfone\r\ntwo\n",
        "refunds/bin/data": b"\x00\xff\x01",
        "refunds/run.sh": b"echo 1\n",
        "refunds/empty.txt": b"",
    }
    folder.skill("refunds")
    for path, data in files.items():
        folder.write(path, data)
    skill("refunds", server=server)

    async with client_for(server) as client:
        listed = await manifest(client, "skill://refunds/SKILL.md")
        assert len(listed) == 5
        for uri, entry in listed.items():
            (contents,) = (await client.request("resources/read", {"uri": uri}))["contents"]
            data = bytes_of(contents)
            assert entry == described(uri, data)
        markdown = await client.request("resources/read", {"uri": "skill://refunds/SKILL.md"})
        assert markdown["contents"][0]["mimeType"] == "text/markdown"
        with pytest.raises(ErrorResponse):
            await client.request("resources/read", {"uri": "skill://refunds/other.md"})


def bytes_of(contents: Any) -> bytes:
    if "text" in contents:
        data: bytes = contents["text"].encode()
        return data
    return base64.b64decode(contents["blob"])


@spec("SK-39")
async def test_skill_is_a_resource_for_clients_that_know_no_skills(
    client_for: Any, folder: Folder, server: Server
) -> None:
    folder.skill("refunds")
    skill("refunds", server=server, title="Refunds")

    async with client_for(server) as client:
        (listed,) = await client.list_resources()
        (template,) = await client.list_resource_templates()
    assert listed["uri"] == "skill://refunds/SKILL.md"
    assert listed["name"] == "refunds"
    assert listed["description"] == "How to do refunds"
    assert listed["mimeType"] == "text/markdown"
    assert template["uriTemplate"] == "skill://{+path}"


@spec("SK-10", "SK-11", "SK-13", "SK-15", "SK-27")
async def test_nested_and_grouped_skills_have_entries_of_their_own(
    folder: Folder, server: Server
) -> None:
    folder.skill("billing/refunds")
    folder.skill("billing/refunds/partly")
    skill("billing", server=server)

    async with Client(server) as client:
        assert await uris(client) == [
            "skill://billing/refunds/partly/SKILL.md",
            "skill://billing/refunds/SKILL.md",
        ]
        outer = await manifest(client, "skill://billing/refunds/SKILL.md")
    assert [*outer] == [
        "skill://billing/refunds/SKILL.md",
        "skill://billing/refunds/partly/SKILL.md",
    ]


@spec("SK-04", "SK-40", "SK-41", "SK-42")
async def test_directory_has_its_direct_children(
    client_for: Any, folder: Folder, server: Server
) -> None:
    folder.skill("billing/refunds")
    folder.write("billing/refunds/a/b/c.txt", "C")
    (folder.root / "billing/refunds/nothing").mkdir()
    skill("billing", server=server)

    async def names(uri: str) -> dict[str, str]:
        result = await client.request("resources/directory/read", {"uri": uri})
        return {each["uri"]: each["mimeType"] for each in result["resources"]}

    async with client_for(server) as client:
        assert await names("skill://billing") == {"skill://billing/refunds": "inode/directory"}
        assert await names("skill://billing/refunds") == {
            "skill://billing/refunds/SKILL.md": "text/markdown",
            "skill://billing/refunds/a": "inode/directory",
            "skill://billing/refunds/nothing": "inode/directory",
        }
        assert await names("skill://billing/refunds/a/b") == {
            "skill://billing/refunds/a/b/c.txt": "text/plain"
        }
        assert await names("skill://billing/refunds/nothing") == {}
        for uri in (
            "skill://billing/refunds/SKILL.md",
            "skill://billing/refunds/",
            "skill://billing/other",
            "skill://bill",
            "skill://",
            "file:///etc",
        ):
            error = await refused(client, "resources/directory/read", uri=uri)
            assert error.code == -32602
            assert uri in str(error)


@spec("SK-32")
async def test_lists_have_pages(client_for: Any, folder: Folder) -> None:
    server = Server("shop", page_size=2)
    for name in "abcde":
        folder.skill(f"all/{name}")
    skill("all", server=server)

    async with client_for(server) as client:
        for method, member, params in (
            ("skills/list", "skills", {}),
            ("resources/directory/read", "resources", {"uri": "skill://all"}),
        ):
            pages = []
            sent: dict[str, Any] = params
            while True:
                result = await client.request(method, sent)
                pages.append([each["uri"] for each in result[member]])
                if "nextCursor" not in result:
                    break
                sent = {**params, "cursor": result["nextCursor"]}
            assert [len(page) for page in pages] == [2, 2, 1]
            assert len({uri for page in pages for uri in page}) == 5
            for cursor in ("", "forged", 7):
                error = await refused(client, method, **{**params, "cursor": cursor})
                assert error.code == -32602
        result = await client.request("skills/list", {})
        error = await refused(
            client, "resources/directory/read", uri="skill://all", cursor=result["nextCursor"]
        )
        assert error.code == -32602


@spec("SK-30")
async def test_list_is_public_only_where_everybody_has_all_skills(folder: Folder) -> None:
    scopes = {}
    for permission in (None, "login_required"):
        server = Server("shop", cache=CacheHint(ttl_ms=1000, scope="public"))
        name = "open" if permission is None else "closed"
        folder.skill(name)
        skill(name, server=server, permission=permission)
        async with Client(server) as client:
            result = await client.request("skills/list", {})
        assert result["ttlMs"] == 1000
        scopes[name] = result["cacheScope"]
    assert scopes == {"open": "public", "closed": "private"}


HOUR, MINUTE = CacheHint(ttl_ms=3_600_000, scope="public"), CacheHint(ttl_ms=60_000)


@pytest.mark.parametrize(
    ("options", "ttl_ms", "scope"),
    [
        ({}, 3_600_000, "public"),
        ({"permission": "login_required"}, 3_600_000, "private"),
        ({"cache": MINUTE}, 60_000, "private"),
        ({"cache": CacheHint(ttl_ms=5, scope="public")}, 5, "public"),
        ({"cache": CacheHint(ttl_ms=5, scope="public"), "scopes": ["a"]}, 5, "private"),
        ({"group": "orders"}, 3_600_000, "private"),
        ({"group": "catalogue"}, 3_600_000, "public"),
    ],
)
async def test_every_file_of_a_skill_has_its_cache_hint_private_unless_everybody_may_use_it(
    folder: Folder, options: Any, ttl_ms: int, scope: str
) -> None:
    server = Server("shop", cache=HOUR, group_scopes={"orders": "a", "catalogue": []})
    folder.skill("refunds")
    folder.write("refunds/a.md", "A")
    skill("refunds", server=server, **options)

    async with Client(server, user=User(pk=1), scopes=["a"]) as client:
        for uri in ("skill://refunds/SKILL.md", "skill://refunds/a.md"):
            result = await client.request("resources/read", {"uri": uri})
            assert (result["ttlMs"], result["cacheScope"]) == (ttl_ms, scope), uri


async def test_changed_file_changes_its_digest_at_once(folder: Folder, server: Server) -> None:
    folder.skill("refunds")
    file = folder.write("refunds/a.txt", "one")
    skill("refunds", server=server)
    uri = "skill://refunds/SKILL.md"

    async with Client(server) as client:
        before = await manifest(client, uri)
        file.write_text("three")
        folder.write("refunds/b.txt", "new")
        after = await manifest(client, uri)
        read = await client.request("resources/read", {"uri": "skill://refunds/b.txt"})
    assert after["skill://refunds/a.txt"] == described("skill://refunds/a.txt", b"three")
    assert before["skill://refunds/a.txt"] != after["skill://refunds/a.txt"]
    assert read["contents"][0]["text"] == "new"


async def test_digest_is_computed_once_while_a_file_stays(
    folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.skill("refunds")
    folder.write("refunds/a.txt", "one")
    skill("refunds", server=server)

    async with Client(server) as client:
        first = await manifest(client, "skill://refunds/SKILL.md")
        monkeypatch.setattr(hashlib, "sha256", None)
        assert await manifest(client, "skill://refunds/SKILL.md") == first


@spec("SK-31")
async def test_skill_that_became_unreadable_is_left_out_and_logged(
    folder: Folder, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    broken = folder.skill("refunds")
    folder.skill("returns")
    skill("refunds", "returns", server=server)

    async with Client(server) as client:
        assert len(await uris(client)) == 2
        broken.write_text("no front matter")
        assert await uris(client) == ["skill://returns/SKILL.md"]
        error = await refused(client, "skills/get", uri="skill://refunds/SKILL.md")
    assert error.code == -32602
    assert "no front matter" in caplog.text


async def test_skill_that_hosts_refuse_is_not_served(
    folder: Folder, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    folder.skill("refunds", name="other")
    folder.skill("returns")
    skill("refunds", "returns", server=server)

    async with Client(server) as client:
        assert await uris(client) == ["skill://returns/SKILL.md"]
        assert [each["name"] for each in await client.list_resources()] == ["returns"]
    assert "The skill refunds is not served: its name is 'other'" in caplog.text


def test_each_worker_finds_the_same_order(folder: Folder) -> None:
    for name in ("b", "a", "c/d", "c"):
        folder.skill(f"all/{name}")

    found = [path for path in finding.find().skills if path.startswith("all/")]
    assert found == ["all/a", "all/b", "all/c", "all/c/d"]
