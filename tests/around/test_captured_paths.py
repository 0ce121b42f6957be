"""Servers whose path captures values, as URL patterns do: one endpoint for each tenant."""

from __future__ import annotations

import pytest
from channels.routing import URLRouter
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Frame, Server, registry
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.routing import mount, urlpatterns
from django_mcp.testing import Client
from django_mcp.testing.asgi import Application, Reply, http_scope, perform
from tests.around.requests import call, post, scope_of

PUBLIC = "django_mcp.auth.anonymous.AnonymousAuthentication"


async def django(scope: object, receive: object, send: object) -> None:
    """The application of all other paths."""
    raise LookupError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The only server of the site."""
    server = Server("orgs", path="orgs/<slug:org>/mcp", authenticators=[PUBLIC])

    @server.tool
    async def org(frame: Frame) -> str:
        match = frame.django_request.resolver_match
        assert match is None or match.kwargs == {"org": frame.get_path_param("org")}
        return f"{frame.get_path_param('org')} {frame.get_path_param('other')}"

    for number in range(3):
        server.register_tool(f"t{number}", org, description="Another tool")
    monkeypatch.setattr(registry.registered, "servers", {server.name: server})
    return server


@pytest.fixture(params=["mount", "urlpatterns"])
def application(request: pytest.FixtureRequest, server: Server) -> Application:
    if request.param == "mount":
        return mount(django)
    return URLRouter(urlpatterns())  # type: ignore[arg-type]


async def test_captured_value_is_on_the_frame(application: Application) -> None:
    assert await call(application, "org", "/orgs/acme/mcp") == "acme None"
    assert await call(application, "org", "/orgs/other-1/mcp/") == "other-1 None"


async def test_prefix_of_the_site_is_not_captured(server: Server) -> None:
    scope, body = scope_of("tools/call", {"name": "org"}, path="/app/orgs/acme/mcp")
    reply = await perform(mount(django), {**scope, "root_path": "/app"}, body)
    assert reply.json()["result"]["content"][0]["text"] == "acme None"


@pytest.mark.parametrize(
    "path", ["/orgs/a b/mcp", "/orgs/mcp", "/orgs/a/b/mcp", f"/orgs/{'a' * 300}/mcp"]
)
async def test_path_that_does_not_match_is_not_served(server: Server, path: str) -> None:
    with pytest.raises(LookupError):
        await post(mount(django), "tools/list", {}, path=path)


async def test_cursor_of_one_endpoint_is_worth_nothing_at_another(
    application: Application, server: Server
) -> None:
    server.page_size = 2
    first = await post(application, "tools/list", {}, path="/orgs/acme/mcp")
    cursor = first.json()["result"]["nextCursor"]
    again = await post(application, "tools/list", {"cursor": cursor}, path="/orgs/acme/mcp")
    assert "result" in again.json()
    other = await post(application, "tools/list", {"cursor": cursor}, path="/orgs/evil/mcp")
    assert other.json()["error"]["code"] == -32602


async def test_session_of_one_endpoint_is_not_found_at_another(application: Application) -> None:
    opening = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
    )
    opened = await _send(application, "/orgs/acme/mcp", opening)
    session = opened.headers["mcp-session-id"]
    ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    statuses = {
        org: (await _send(application, f"/orgs/{org}/mcp", ping, session)).status
        for org in ("acme", "evil")
    }
    assert statuses == {"acme": 200, "evil": 404}


async def _send(application: Application, path: str, body: bytes, session: str = "") -> Reply:
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **({"mcp-session-id": session} if session else {}),
    }
    return await perform(application, http_scope(path=path, headers=headers), body)


class Issuer:
    """An authenticator for access tokens, which rejects all."""

    scheme = "Bearer"

    async def authenticate(self, scope: object, /) -> Principal | Challenge | None:
        return None

    def authorization_servers(self, scope: object, /) -> list[str]:
        return ["https://issuer.example"]


async def test_metadata_names_the_requested_endpoint(server: Server) -> None:
    server.authenticators = [Issuer()]
    application = mount(django)
    challenge = await post(application, "tools/list", {}, path="/orgs/acme/mcp")
    assert challenge.status == 401
    path = "/.well-known/oauth-protected-resource/orgs/acme/mcp"
    named = f'resource_metadata="http://testserver{path}"'
    assert named in challenge.headers["www-authenticate"]
    for each in (path, "/orgs/acme/mcp/.well-known/oauth-protected-resource"):
        reply = await perform(application, http_scope("GET", each))
        assert reply.json()["resource"] == "http://testserver/orgs/acme/mcp", each


def test_unknown_converter_is_an_error_of_configuration(server: Server) -> None:
    server.path = "orgs/<nothing:org>/mcp"
    with pytest.raises(ImproperlyConfigured, match="nothing"):
        mount(django)


async def test_frame_without_captured_values_has_none() -> None:
    assert Frame().get_path_param("org") is None
    server = Server("plain", authenticators=[PUBLIC])

    @server.tool
    def org(frame: Frame) -> str:
        return str(frame.get_path_param("org"))

    assert await call(server, "org") == "None"
    async with Client(server) as client:
        assert (await client.call_tool("org")).text == "None"
