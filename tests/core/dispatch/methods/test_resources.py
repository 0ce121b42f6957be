"""resources/read, with URIs of resources and of templates."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from django_mcp import (
    CacheHint,
    Frame,
    Resource,
    ResourceNotFound,
    ResourceTemplate,
    Response,
    Server,
)
from django_mcp.core.components.responses import ResourceResponse
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec


def not_found(version: str) -> int:
    return -32602 if version == "2026-07-28" else -32002


async def read(client_for: ClientFor, server: Server, uri: str) -> list[dict[str, Any]]:
    async with client_for(server) as client:
        contents: list[dict[str, Any]] = (await client.read_resource(uri))["contents"]
    return contents


@spec("RES-03")
async def test_string_is_read_as_text_contents(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource("shop://hours")
    def hours() -> str:
        return "always"

    contents = await read(client_for, server, "shop://hours")

    assert contents == [{"uri": "shop://hours", "mimeType": "text/plain", "text": "always"}]


@spec("RES-03", "RES-17", "RES-19", "2026/RES-05")
async def test_bytes_are_read_as_a_blob(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource("shop://logo", mime_type="image/png")
    async def logo() -> bytes:
        return b"\x00\x01"

    contents = await read(client_for, server, "shop://logo")

    assert contents == [
        {"uri": "shop://logo", "mimeType": "image/png", "blob": base64.b64encode(b"\0\1").decode()}
    ]


async def test_other_values_are_read_as_json(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource("shop://prices")
    def prices() -> dict[str, float]:
        return {"tea": 2.5}

    (content,) = await read(client_for, server, "shop://prices")

    assert content["mimeType"] == "application/json"
    assert json.loads(content["text"]) == {"tea": 2.5}


@spec("RES-03", "2026/RES-07")
async def test_resource_response_returns_several_contents(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource("shop://folder")
    def folder() -> ResourceResponse:
        return Response.resource().add("shop://a", text="A").add("shop://b", blob=b"B")

    contents = await read(client_for, server, "shop://folder")

    assert [content["uri"] for content in contents] == ["shop://a", "shop://b"]


@spec("2026/RES-03")
async def test_none_is_read_as_empty_text(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource("shop://nothing")
    def nothing() -> None:
        return None

    (content,) = await read(client_for, server, "shop://nothing")

    assert content["text"] == ""


async def test_resource_class_is_read(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.resource()
    class Hours(Resource):
        uri = "shop://hours"

        async def read(self, frame: Frame) -> str:
            assert frame.request is not None
            return str(frame.request.params["uri"])

    (content,) = await read(client_for, server, "shop://hours")

    assert content["text"] == "shop://hours"


@spec("RES-04", "2026/RES-09")
async def test_template_variables_are_decoded_and_converted_to_annotated_types(
    client_for: ClientFor,
) -> None:
    server = Server("desk")

    @server.resource("ticket://{number}/{part}")
    def ticket(number: int, part: str, uri: str) -> str:
        return f"{number + 1} {part} {uri}"

    (content,) = await read(client_for, server, "ticket://7/caf%C3%A9")

    assert content["text"] == "8 café ticket://7/caf%C3%A9"
    assert content["uri"] == "ticket://7/caf%C3%A9"


@spec("RES-15")
async def test_unconvertible_template_variable_returns_resource_not_found(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")

    @server.resource("ticket://{number}")
    def ticket(number: int) -> str:
        return "never"

    async with client_for(server) as client:
        error = await error_of(client.read_resource("ticket://seven"))

    assert (error.code, error.data) == (not_found(mcp_version), {"uri": "ticket://seven"})


@spec("RES-14", "2026/VER-10", "2026/ERR-03", "2026/RES-03")
async def test_unknown_uri_is_rejected_with_the_uri_as_error_data(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")
    server.resource("shop://hours", name="hours")(lambda: "9 to 5")

    async with client_for(server) as client:
        error = await error_of(client.read_resource("shop://nowhere"))

    assert (error.code, error.data) == (not_found(mcp_version), {"uri": "shop://nowhere"})


@pytest.mark.parametrize("raised", [True, False])
async def test_resource_not_found_in_a_template_tries_the_next_template(
    client_for: ClientFor, raised: bool
) -> None:
    server = Server("desk")

    @server.resource("desk://tickets/{number}", name="tickets")
    def ticket(number: str) -> str | ResourceNotFound:
        if raised:
            raise ResourceNotFound
        return ResourceNotFound()

    @server.resource("desk://{kind}/{number}", name="anything")
    def anything(kind: str, number: str) -> str:
        return f"{kind} {number}"

    (content,) = await read(client_for, server, "desk://tickets/7")

    assert content["text"] == "tickets 7"


async def test_resource_takes_precedence_over_matching_templates(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.resource("desk://{page}")
    def page(page: str) -> str:
        return "the template"

    @server.resource("desk://home")
    def home() -> str:
        return "the resource"

    (content,) = await read(client_for, server, "desk://home")

    assert content["text"] == "the resource"


async def test_resource_template_class_is_read(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.resource()
    class Pages(ResourceTemplate):
        uri_template = "desk://{page}"
        name = "pages"

        def read(self, page: str) -> str:
            return page

    (content,) = await read(client_for, server, "desk://home")

    assert content["text"] == "home"


@spec("RES-14", "2026/ERR-08", "2026/RES-04")
async def test_exception_in_resource_is_logged_and_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.resource("shop://hours")
    def hours() -> str:
        raise RuntimeError("the password is xyzzy")

    async with client_for(server) as client:
        error = await error_of(client.read_resource("shop://hours"))

    assert (error.code, error.data) == (-32603, None)
    assert "xyzzy" not in error.message
    assert "xyzzy" in caplog.text


@spec("2026/CCH-01")
async def test_restricted_resource_is_private_unless_its_own_hint_says_otherwise(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop", cache=CacheHint(10, "public"))
    server.resource("shop://open")(lambda: "")
    server.resource("shop://staff", permission=lambda frame: True)(lambda: "")
    hint = CacheHint(10, "public")
    server.resource("shop://shown", permission=lambda frame: True, cache=hint)(lambda: "")

    async with client_for(server) as client:
        results = [
            await client.read_resource(f"shop://{name}") for name in ("open", "staff", "shown")
        ]

    scopes = [result.get("cacheScope") for result in results]
    is_newest = mcp_version == "2026-07-28"
    assert scopes == (["public", "private", "public"] if is_newest else [None] * 3)


@spec("2026/CCH-01", "2026/CCH-06")
async def test_cache_hint_of_the_resource_overrides_the_server_default(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop", cache=CacheHint(ttl_ms=10))

    @server.resource("shop://hours", cache=CacheHint(ttl_ms=99, scope="public"))
    def hours() -> str:
        return "always"

    async with client_for(server) as client:
        result = await client.read_resource("shop://hours")

    if mcp_version == "2026-07-28":
        assert (result["ttlMs"], result["cacheScope"]) == (99, "public")
    else:
        assert set(result) == {"contents"}


@spec("RES-15", "2026/RES-05")
@pytest.mark.parametrize(
    "uri",
    [
        "files://docs/..",
        "files://docs/%2e%2e",
        "files://docs/..%2F..%2Fetc",
        "files://docs/a%2F..%5C..",
        "files://tree/../etc/passwd",
        "files://tree/a/%2E./b",
        "files://found?path=..%2Fetc",
        "files://found?path=a/../b",
        "files://docs/a%2Fb",
        "files://docs/%5C",
        "files://docs/c:x",
        "files://tree//etc/passwd",
        "files://tree/%2Fetc/passwd",
        "files://tree/%5Cetc",
        "files://tree/C:/x",
        "files://found?path=%2Fetc",
        "ftp://docs/a",
        "files://docs/%00",
        "files://docs/%FF",
        "files://docs/a\nb/c",
        "",
        "files:",
    ],
)
async def test_invalid_or_path_traversal_uri_is_rejected(client_for: ClientFor, uri: str) -> None:
    server = Server("files")
    read: list[str] = []

    @server.resource("files://docs/{name}")
    @server.resource("files://tree/{+name}")
    @server.resource("files://found{?name}")
    def document(name: str = "") -> str:
        read.append(name)
        return name

    async with client_for(server) as client:
        error = await error_of(client.read_resource(uri.replace("path=", "name=")))
        fine = await client.read_resource("files://tree/a/..b/c..")

    assert error.code in (-32002, -32602)
    assert read == ["a/..b/c.."]
    assert fine.text == "a/..b/c.."
