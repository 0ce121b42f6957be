"""The metadata of servers as protected resources: where it is, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.testing.asgi import Application
from tests.spec import spec
from tests.transports.http.token_servers import ISSUER, WELL_KNOWN, Tokens, desk
from tests.transports.http.well_known import get, site

if TYPE_CHECKING:
    from pytest_django import Settings

DESK = {
    "resource": "http://testserver/desk",
    "authorization_servers": [ISSUER],
    "scopes_supported": ["mcp"],
    "bearer_methods_supported": ["header"],
    "resource_name": "The desk",
}
PLACES = [f"{WELL_KNOWN}/desk", f"/desk{WELL_KNOWN}", WELL_KNOWN]
MOUNTS = pytest.mark.parametrize("how", ["mount", "urlpatterns"])


def private(path: str = "/desk") -> Server:
    return desk(title="The desk", scopes=["mcp"], path=path)


def public(name: str = "shop") -> Server:
    return Server(name, authenticators=[AnonymousAuthentication()])


@spec("AUTH-RS-02", "AUTH-RS-05", "AUTH-RS-08", "AUTH-RS-09", "AUTH-RS-26", "AUTH-02", "AUTH-03")
@MOUNTS
@pytest.mark.parametrize("place", PLACES)
async def test_metadata_is_at_all_three_places(
    monkeypatch: pytest.MonkeyPatch, how: str, place: str
) -> None:
    application = site(monkeypatch, how, private(), public())

    for path in (place, f"{place}/"):
        reply = await get(application, path)
        assert (reply.status, reply.media_type) == (200, "application/json")
        assert reply.json() == DESK
        assert reply.headers["content-length"] == str(len(reply.body))


@MOUNTS
@pytest.mark.parametrize(
    "place",
    [f"{WELL_KNOWN}/shop", f"/shop{WELL_KNOWN}", f"{WELL_KNOWN}/none", f"{WELL_KNOWN}/desk/more"],
)
async def test_public_server_and_unknown_path_get_404_as_json(
    monkeypatch: pytest.MonkeyPatch, how: str, place: str
) -> None:
    application = site(monkeypatch, how, private(), public())

    reply = await get(application, place)

    assert (reply.status, reply.media_type) == (404, "application/json")
    assert reply.json()["error"] == "not_found"


@spec("AUTH-RS-01", "AUTH-RS-06", "AUTH-02")
@MOUNTS
@pytest.mark.parametrize("place", [*PLACES, f"{WELL_KNOWN}/none"])
async def test_site_without_access_tokens_has_no_metadata(
    monkeypatch: pytest.MonkeyPatch, how: str, place: str
) -> None:
    own_tokens = Server("desk", authenticators=[Tokens()])
    application = site(monkeypatch, how, own_tokens, public())

    assert (await get(application, place)).json()["error"] == "not_found"


async def test_path_that_only_starts_like_the_well_known_one_is_of_the_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = site(monkeypatch, "mount", private())

    for path in (
        f"{WELL_KNOWN}-2",
        "/.well-known/oauth-authorization-server",
        f"/blog{WELL_KNOWN}",
    ):
        assert (await get(application, path)).media_type == "text/html"


@spec("AUTH-RS-09")
@MOUNTS
async def test_endpoint_at_the_root_has_its_metadata_at_the_well_known_path(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    other = Server("other", authenticators=[Tokens("https://other.example")])
    application = site(monkeypatch, how, other, private("/"))

    found = (await get(application, WELL_KNOWN)).json()

    assert found["resource"] == "http://testserver/"
    challenge = (await get(application, "/", "POST", authorization="Bearer expired")).headers
    assert f'resource_metadata="http://testserver{WELL_KNOWN}"' in challenge["www-authenticate"]
    assert (await get(application, f"{WELL_KNOWN}/")).json() == found


@MOUNTS
@pytest.mark.parametrize("place", PLACES)
async def test_head_has_the_headers_of_get_and_no_content(
    monkeypatch: pytest.MonkeyPatch, how: str, place: str
) -> None:
    application = site(monkeypatch, how, private())

    found, head = await get(application, place), await get(application, place, "HEAD")

    assert (head.status, head.headers, head.body) == (200, found.headers, b"")


@pytest.mark.parametrize("place", [*PLACES, f"{WELL_KNOWN}/none"])
async def test_metadata_is_only_read(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    reply = await get(site(monkeypatch, "mount", private()), place, "POST")

    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_foreign_host_and_origin_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    application = site(monkeypatch, "mount", private())

    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        reply = await get(application, PLACES[0], **headers)
        assert (reply.status, reply.media_type) == (403, "application/json")
        assert "access-control-allow-origin" not in reply.headers


async def metadata_url(application: Application, path: str, **options: Any) -> str:
    """The URL of the metadata which the challenge of an endpoint names."""
    reply = await get(application, path, "POST", authorization="Bearer expired", **options)
    assert reply.status == 401
    return reply.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]


@spec("AUTH-RS-31")
async def test_resource_is_the_url_that_a_client_has_behind_a_proxy(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.USE_X_FORWARDED_HOST = True
    settings.ALLOWED_HOSTS = ["testserver", "www.example.com"]
    application = site(monkeypatch, "mount", private())
    forwarded = {"x_forwarded_proto": "https", "x_forwarded_host": "www.example.com"}

    url = await metadata_url(application, "/desk", **forwarded)
    found = (await get(application, PLACES[0], **forwarded)).json()

    assert url == f"https://www.example.com{WELL_KNOWN}/desk"
    assert found["resource"] == "https://www.example.com/desk"


@MOUNTS
async def test_base_url_is_that_of_the_resource(
    monkeypatch: pytest.MonkeyPatch, how: str, configure: Any
) -> None:
    configure(BASE_URL="https://example.org")
    application = site(monkeypatch, how, private())

    assert await metadata_url(application, "/desk") == f"https://example.org{WELL_KNOWN}/desk"
    for place in PLACES:
        assert (await get(application, place)).json()["resource"] == "https://example.org/desk"


@spec("AUTH-RS-31")
@MOUNTS
async def test_base_url_with_a_path_is_found_at_the_root_of_its_host(
    monkeypatch: pytest.MonkeyPatch, how: str, configure: Any
) -> None:
    configure(BASE_URL="https://example.org/app")
    application = site(monkeypatch, how, private())

    url = await metadata_url(application, "/desk")

    assert url == f"https://example.org{WELL_KNOWN}/app/desk"
    for place in (f"{WELL_KNOWN}/app/desk", *PLACES):
        assert (await get(application, place)).json()["resource"] == "https://example.org/app/desk"
    assert (await get(application, f"{WELL_KNOWN}/apps/desk")).status == 404


@spec("AUTH-RS-31")
@pytest.mark.parametrize("prefix", ["", "/app"], ids=["removed", "kept"])
async def test_site_below_a_path_is_served_whether_the_asgi_server_keeps_it_or_not(
    monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    application = site(monkeypatch, "mount", private())

    url = await metadata_url(application, f"{prefix}/desk", root="/app")

    assert url == f"http://testserver{WELL_KNOWN}/app/desk"
    for place in (
        f"{WELL_KNOWN}/app/desk",
        f"{prefix}{WELL_KNOWN}/desk",
        f"{prefix}/desk{WELL_KNOWN}",
        f"{prefix}{WELL_KNOWN}",
    ):
        reply = await get(application, place, root="/app")
        assert reply.json()["resource"] == "http://testserver/app/desk", place
    assert (await get(application, "/apple", root="/app")).media_type == "text/html"


async def test_metadata_and_endpoints_share_the_authenticators(
    monkeypatch: pytest.MonkeyPatch, configure: Any
) -> None:
    created: list[Any] = []

    class Counted(Tokens):
        def __init__(self) -> None:
            created.append(self)
            super().__init__(ISSUER)

    monkeypatch.setattr("tests.transports.http.token_servers.Counted", Counted, raising=False)
    configure(HTTP_SSE=True)
    server = Server("desk", authenticators=["tests.transports.http.token_servers.Counted"])

    site(monkeypatch, "mount", server)

    assert len(created) == 1
