"""The cards of servers and the AI catalogue: where they are, who may read them, and caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from django_mcp import Server, registry, routing
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.testing import Client
from django_mcp.testing.asgi import Application, Reply, perform
from tests.core.server.card_schemas import errors_of_card
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.transports.http.token_servers import desk
from tests.transports.http.well_known import get, site
from tests.wsgi.requests import environ
from tests.wsgi.requests import perform as perform_wsgi

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["configure"]

MOUNTS = pytest.mark.parametrize("how", ["mount", "urlpatterns"])
CATALOG = "/.well-known/ai-catalog.json"


def shop(name: str = "shop", **options: Any) -> Server:
    """A server which anybody may call, with a tool."""
    members = {"description": "Orders.", "path": f"/{name}", **options}
    server = Server(name, authenticators=[AnonymousAuthentication()], **members)

    @server.tool(read_only=True)
    def secret_stock() -> int:
        """Count what is there."""
        return 1

    return server


def private(**options: Any) -> Server:
    """A server whose callers need a token."""
    return desk(public=False, description="What the desk can do.", path="/desk", **options)


async def urls(application: Application) -> list[str]:
    reply = await get(application, CATALOG)
    return [entry["url"] for entry in reply.json()["entries"]]


@spec("CARD-01", "CARD-02", "CARD-03")
@MOUNTS
async def test_card_is_behind_the_path_of_its_endpoint(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    application = site(monkeypatch, how, shop(title="The shop"), private())

    for path in ("/shop/server-card", "/shop/server-card/"):
        reply = await get(application, path)
        assert (reply.status, reply.media_type) == (200, "application/mcp-server-card+json")
        assert reply.json()["name"] == "testserver/shop"
        assert reply.json()["remotes"][0]["url"] == "http://testserver/shop"
        assert errors_of_card(reply.json()) == []


@spec("CARD-04", "CARD-05")
@MOUNTS
async def test_catalogue_lists_the_cards(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    application = site(monkeypatch, how, shop(), private(), shop("root", path="/"))

    reply = await get(application, CATALOG)

    assert (reply.status, reply.media_type) == (200, "application/ai-catalog+json")
    assert reply.json() == {
        "specVersion": "1.0",
        "entries": [
            {
                "identifier": f"urn:air:testserver:mcp:{name}",
                "type": "application/mcp-server-card+json",
                "url": f"http://testserver{path}/server-card",
            }
            for name, path in (("shop", "/shop"), ("desk", "/desk"), ("root", ""))
        ],
    }
    for url in await urls(application):
        card = await get(application, url.removeprefix("http://testserver"))
        assert card.status == 200


async def test_urls_are_those_of_the_public_site(
    monkeypatch: pytest.MonkeyPatch, configure: Configure
) -> None:
    configure(BASE_URL="https://api.example.com/app")
    application = site(monkeypatch, "mount", shop())

    reply = await get(application, "/shop/server-card")

    assert reply.json()["name"] == "com.example.api/shop"
    assert reply.json()["remotes"][0]["url"] == "https://api.example.com/app/shop"
    assert await urls(application) == ["https://api.example.com/app/shop/server-card"]


@spec("CARD-06")
async def test_card_of_a_private_server_needs_no_login_and_names_no_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = private(instructions="The password of the safe is on the desk.")
    application = site(monkeypatch, "mount", server, shop())

    anonymous = await get(application, "/desk/server-card")
    caller = await get(application, "/desk/server-card", authorization="Bearer read+write")

    assert anonymous.body == caller.body
    assert {*anonymous.json()} == {"$schema", "name", "description", "version", "remotes"}
    for text in ("safe", "read", "write", "tools", "Bearer"):
        assert text not in anonymous.body.decode()
    assert "secret_stock" not in (await get(application, "/shop/server-card")).body.decode()


@spec("CARD-07")
@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_every_web_page_may_read_it(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    application = site(monkeypatch, "mount", shop())

    reply = await get(application, path, origin="https://elsewhere.example")
    preflight = await get(
        application,
        path,
        "OPTIONS",
        origin="https://elsewhere.example",
        access_control_request_method="GET",
    )

    assert (reply.status, preflight.status) == (200, 204)
    for each in (reply, preflight):
        assert each.headers["access-control-allow-origin"] == "*"
        assert "GET" in each.headers["access-control-allow-methods"]
        assert each.headers["access-control-allow-headers"] == "content-type, if-none-match"
        assert each.headers["access-control-expose-headers"] == "ETag"
        assert "access-control-allow-credentials" not in each.headers


@spec("CARD-08")
@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_client_that_has_the_document_is_not_sent_it_again(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    server = shop()
    application = site(monkeypatch, "mount", server)
    first = await get(application, path)
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, max-age=3600"

    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await get(application, path, if_none_match=known)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == etag
        assert again.headers["cache-control"] == "public, max-age=3600"
        assert again.headers["access-control-allow-origin"] == "*"
    assert (await get(application, path, if_none_match='"other"')).status == 200


async def test_changed_card_has_another_etag(monkeypatch: pytest.MonkeyPatch) -> None:
    server = shop()
    application = site(monkeypatch, "mount", server)
    etag = (await get(application, "/shop/server-card")).headers["etag"]

    server.describe(description="Orders and stock.")

    reply = await get(application, "/shop/server-card", if_none_match=etag)
    assert reply.json()["description"] == "Orders and stock."
    assert reply.headers["etag"] != etag


@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_head_has_the_headers_alone(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    application = site(monkeypatch, "mount", shop())
    read, head = await get(application, path), await get(application, path, "HEAD")
    assert (head.status, head.body, head.headers) == (200, b"", read.headers)
    assert read.headers["content-length"] == str(len(read.body))


@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_other_methods_are_not_allowed(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    reply = await get(site(monkeypatch, "mount", shop()), path, "POST")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
@pytest.mark.parametrize("host", ["evil.example", "x" * 400])
async def test_host_of_another_site_is_refused(
    monkeypatch: pytest.MonkeyPatch, path: str, host: str
) -> None:
    reply = await get(site(monkeypatch, "mount", shop()), path, host=host)
    assert (reply.status, reply.headers["cache-control"]) == (403, "no-store")


async def test_two_hosts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    application = site(monkeypatch, "mount", shop())
    headers = [(b"host", b"testserver"), (b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/shop/server-card",
        "headers": headers,
        "query_string": b"",
    }
    assert (await perform(application, scope)).status == 400


async def test_document_that_depends_on_a_forwarded_host_is_not_shared(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, configure: Configure
) -> None:
    settings.USE_X_FORWARDED_HOST = True
    settings.ALLOWED_HOSTS = ["*"]
    application = site(monkeypatch, "mount", shop())
    reply = await get(application, "/shop/server-card", x_forwarded_host="evil.example")
    assert reply.headers["cache-control"] == "private, max-age=3600"

    configure(BASE_URL="https://example.com")
    application = site(monkeypatch, "mount", shop())
    reply = await get(application, "/shop/server-card", x_forwarded_host="evil.example")
    assert reply.headers["cache-control"] == "public, max-age=3600"
    assert "evil" not in reply.body.decode()


@MOUNTS
async def test_endpoint_of_each_tenant_has_a_card_and_the_catalogue_none(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    application = site(monkeypatch, how, shop(path="/orgs/<slug:org>/mcp"), private())

    reply = await get(application, "/orgs/acme/mcp/server-card")

    assert reply.json()["remotes"][0]["url"] == "http://testserver/orgs/acme/mcp"
    assert await urls(application) == ["http://testserver/desk/server-card"]


async def test_card_is_found_below_the_prefix_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    application = site(monkeypatch, "mount", shop())
    reply = await get(application, "/app/shop/server-card", root="/app")
    assert reply.json()["remotes"][0]["url"] == "http://testserver/app/shop"


@spec("CARD-09")
async def test_card_says_what_the_server_says_at_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    server = shop(title="The shop", website_url="https://shop.example.com/")
    application = site(monkeypatch, "mount", server)

    card = (await get(application, "/shop/server-card")).json()

    async with Client(server, version="2026-07-28") as client:
        discovered = await client.request("server/discover")
    info = discovered["_meta"]["io.modelcontextprotocol/serverInfo"]
    same = ("title", "version", "description", "websiteUrl")
    assert {name: card[name] for name in same} == {name: info[name] for name in same}
    assert card["name"].endswith(f"/{info['name']}")
    (remote,) = card["remotes"]
    assert {*discovered["supportedVersions"]} <= {*remote["supportedProtocolVersions"]}


# What is published.


@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_one_setting_turns_all_of_it_off(
    monkeypatch: pytest.MonkeyPatch, configure: Configure, path: str
) -> None:
    configure(SERVER_CARDS=[])
    reply = await get(site(monkeypatch, "mount", shop(), private()), path)
    assert reply.body == b"<h1>Not found</h1>"


async def test_server_without_a_description_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = site(monkeypatch, "mount", shop(description=None), private())
    assert (await get(application, "/shop/server-card")).media_type == "text/html"
    assert await urls(application) == ["http://testserver/desk/server-card"]


async def test_setting_names_the_published_servers(
    monkeypatch: pytest.MonkeyPatch, configure: Configure
) -> None:
    servers = {"shop": shop(), "desk": private()}
    monkeypatch.setattr(registry.registered, "servers", {**registry.registered.servers, **servers})
    configure(SERVER_CARDS=["desk"])
    application = site(monkeypatch, "mount", *servers.values())
    assert (await get(application, "/shop/server-card")).media_type == "text/html"
    assert await urls(application) == ["http://testserver/desk/server-card"]


def test_unknown_name_in_the_setting_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, configure: Configure
) -> None:
    configure(SERVER_CARDS=["shopp"])
    with pytest.raises(ImproperlyConfigured, match=r"SERVER_CARDS.*no MCP server 'shopp'"):
        site(monkeypatch, "mount", shop())


@pytest.mark.parametrize("path", ["/shop/server-card", CATALOG])
async def test_invalid_card_is_not_served(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    application = site(monkeypatch, "mount", shop(description="x" * 101))
    reply = await get(application, path)
    assert (reply.status, reply.media_type) == (404, "application/json")
    assert reply.headers["cache-control"] == "no-store"


async def test_server_with_the_path_of_a_card_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Server("own", path="/shop/server-card", authenticators=[AnonymousAuthentication()])
    reply: Reply = await get(site(monkeypatch, "mount", shop(), own), "/shop/server-card")
    assert reply.media_type != "application/mcp-server-card+json"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/shop/server-card", "application/mcp-server-card+json"),
        (CATALOG, "application/ai-catalog+json"),
    ],
)
def test_wsgi_applications_serve_the_same(
    monkeypatch: pytest.MonkeyPatch, path: str, media_type: str
) -> None:
    application: Any = wsgi_site(monkeypatch, shop())
    reply = perform_wsgi(application, environ("GET", path, headers={"Host": "testserver"}))
    assert reply.status == 200
    assert reply.headers["content-type"] == media_type
    assert "http://testserver/shop" in str(reply.json())
    known = {"Host": "testserver", "If-None-Match": reply.headers["etag"]}
    again = perform_wsgi(application, environ("GET", path, headers=known))
    assert (again.status, again.body) == (304, b"")
    head = perform_wsgi(application, environ("HEAD", path, headers={"Host": "testserver"}))
    assert (head.status, head.body) == (200, b"")


def wsgi_site(monkeypatch: pytest.MonkeyPatch, *servers: Server) -> Any:
    monkeypatch.setattr(registry, "mountable", lambda: servers)
    return routing.mount(get_wsgi_application())
