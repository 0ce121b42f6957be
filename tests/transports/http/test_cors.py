"""Requests of web pages of other origins: preflights, and the headers that they may read."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Server, registry, routing
from django_mcp.testing.asgi import Application, Exchange, Reply, http_scope, perform
from tests.spec import spec
from tests.transports.http.token_servers import WELL_KNOWN, bearer, desk
from tests.transports.http.well_known import pages
from tests.wire.asgi import AsgiClient
from tests.wire.messages import JSON, STATELESS, encoded

ORIGIN = "https://inspector.example"
ENDPOINT = "/desk"
METADATA = [f"{WELL_KNOWN}/desk", f"/desk{WELL_KNOWN}", WELL_KNOWN, f"{WELL_KNOWN}/none"]
SSE = {"/desk/sse": "GET", "/desk/messages": "POST"}
ALLOWED = {
    "authorization",
    "content-type",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
    "last-event-id",
}


@pytest.fixture
def server() -> Server:
    return desk(public=False)


@pytest.fixture
def application(server: Server, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Application:
    """A site that allows one other origin."""
    configure(ALLOWED_ORIGINS=[ORIGIN], HTTP_SSE=True)
    monkeypatch.setattr(registry, "mountable", lambda: (server,))
    return routing.mount(pages)


async def preflight(
    application: Application, path: str, origin: str = ORIGIN, requested: str = "authorization"
) -> Reply:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": requested,
    }
    return await perform(application, http_scope("OPTIONS", path, headers=headers))


def names(value: str) -> set[str]:
    return {name.strip() for name in value.split(",")}


@pytest.mark.parametrize("path", [ENDPOINT, *METADATA, *SSE])
async def test_preflight_without_credentials_is_answered(
    application: Application, path: str
) -> None:
    reply = await preflight(application, path)

    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert names(reply.headers["access-control-allow-headers"]) >= ALLOWED
    methods = names(reply.headers["access-control-allow-methods"])
    default = {"GET"} if path in METADATA else {"POST", "GET", "DELETE"}
    assert methods == ({SSE[path]} if path in SSE else default)
    assert reply.headers["vary"] == "origin"
    assert "access-control-allow-credentials" not in reply.headers
    assert "www-authenticate" not in reply.headers


@pytest.mark.parametrize("path", [ENDPOINT, *METADATA, *SSE])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://inspector.example", "null"])
async def test_preflight_of_another_origin_is_rejected(
    application: Application, path: str, origin: str
) -> None:
    reply = await preflight(application, path, origin)

    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


async def test_headers_of_tool_parameters_are_allowed_and_no_others(
    application: Application,
) -> None:
    requested = "Mcp-Param-Region, x-other, mcp-param-\u00e9, mcp-param-a b"

    allowed = names(
        (await preflight(application, ENDPOINT, requested=requested)).headers[
            "access-control-allow-headers"
        ]
    )

    assert {name for name in allowed if name.startswith("mcp-param")} == {"mcp-param-region"}
    assert "x-other" not in allowed


async def test_page_can_read_a_rejection_and_its_challenge(application: Application) -> None:
    for path, method in ((ENDPOINT, "POST"), (ENDPOINT, "GET"), *SSE.items()):
        reply = await perform(
            application, http_scope(method, path, headers={**JSON, "origin": ORIGIN})
        )
        assert reply.status == 401
        assert reply.headers["access-control-allow-origin"] == ORIGIN
        exposed = names(reply.headers["access-control-expose-headers"])
        assert exposed >= {"WWW-Authenticate", "Mcp-Session-Id"}
        assert reply.headers["www-authenticate"].startswith("Bearer resource_metadata=")


async def test_page_can_read_results_metadata_and_streams(
    application: Application, server: Server
) -> None:
    wire = AsgiClient(server, STATELESS, application=application, headers={"origin": ORIGIN})
    call = await wire.post(wire.call("look"), bearer("read"))
    found = await perform(application, http_scope("GET", METADATA[0], headers={"origin": ORIGIN}))
    headers = {**bearer("read"), "origin": ORIGIN, "accept": "text/event-stream"}
    async with Exchange(application, http_scope("GET", "/desk/sse", headers=headers)) as stream:
        streamed = await stream.headers()

    assert (call.status, found.status) == (200, 200)
    for sent in (call.headers, found.headers, streamed):
        assert sent["access-control-allow-origin"] == ORIGIN
        assert sent["vary"] == "origin"


async def test_response_to_a_program_has_no_headers_for_pages(
    application: Application, server: Server
) -> None:
    wire = AsgiClient(server, STATELESS, application=application)

    reply = await wire.post(wire.call("look"), bearer("read"))

    assert not [name for name in reply.headers if name.startswith("access-control")]


@spec("AUTH-13")
async def test_request_of_another_origin_is_rejected_and_unreadable(
    application: Application, server: Server
) -> None:
    wire = AsgiClient(server, STATELESS, application=application, headers=bearer("read"))
    message = wire.call("look")
    scope = wire.scope(message, {"origin": "https://evil.example"})

    reply = await perform(application, scope, encoded(message))

    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]
