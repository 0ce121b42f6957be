"""A site below a prefix: the whole flow of a client through a proxy, with every way to say so.

A proxy removes the prefix or passes it on, and an ASGI server adds it to ``path`` or does not. What
the client and the browser of its user see is the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.template import Context, Engine
from django.urls import include, path

from django_mcp.routing import mount
from django_mcp.testing.asgi import Application
from tests.contrib.oauth.flow import CHALLENGE, VERIFIER, hidden, query

if TYPE_CHECKING:
    from pytest_django import Settings

ORIGIN = "https://site.example"
PREFIX = "/app"
ENDPOINT = f"{ORIGIN}{PREFIX}/mcp"
REDIRECT_URI = "http://127.0.0.1:33418/callback"
METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"


LOGIN = """{% csrf_token %}<input type="hidden" name="next" value="{{ next }}">"""


class Login(LoginView):
    """A login page that needs no other app."""

    def render_to_response(self, context: Any, **_: Any) -> Any:
        page = Engine.get_default().from_string(LOGIN)
        csrf_token = get_token(self.request)
        return HttpResponse(page.render(Context({**context, "csrf_token": csrf_token})))


urlpatterns = [
    path("", include("django_mcp.contrib.oauth.urls")),
    path("accounts/login/", Login.as_view(), name="login"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What the proxy, the ASGI server and the settings make of a prefix."""

    is_in_path: bool
    root_path: str = ""
    script_name: str | None = None
    base_url: str | None = None


ARRANGEMENTS = {
    "stripped, FORCE_SCRIPT_NAME": Arrangement(is_in_path=False, script_name=PREFIX),
    "stripped, FORCE_SCRIPT_NAME and BASE_URL": Arrangement(
        is_in_path=False, script_name=PREFIX, base_url=ORIGIN + PREFIX
    ),
    "passed on, FORCE_SCRIPT_NAME": Arrangement(is_in_path=True, script_name=PREFIX),
    "uvicorn --root-path": Arrangement(is_in_path=True, root_path=PREFIX),
    "daphne --root-path": Arrangement(is_in_path=False, root_path=PREFIX),
    "uvicorn --root-path and FORCE_SCRIPT_NAME": Arrangement(
        is_in_path=True, root_path=PREFIX, script_name=PREFIX
    ),
}


@pytest.fixture(params=ARRANGEMENTS)
def arrangement(request: pytest.FixtureRequest, settings: Settings) -> Arrangement:
    arrangement = ARRANGEMENTS[request.param]
    settings.FORCE_SCRIPT_NAME = arrangement.script_name
    settings.ROOT_URLCONF = __name__
    if arrangement.base_url:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": arrangement.base_url}
    return arrangement


def behind_proxy(application: Application, arrangement: Arrangement) -> Application:
    """Return the application as browsers and clients see it; other paths are another site's."""

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        requested = scope["path"]
        is_ours = requested.startswith((f"{PREFIX}/", METADATA, RESOURCE_METADATA))
        assert is_ours, f"{requested} is outside of the site"
        inner = requested.removeprefix(PREFIX)
        received = PREFIX + inner if arrangement.is_in_path else inner
        own = {**scope, "path": received, "root_path": arrangement.root_path}
        await application(own, receive, send)

    return proxy


@asynccontextmanager
async def site(arrangement: Arrangement) -> AsyncIterator[httpx.AsyncClient]:
    application = behind_proxy(mount(ASGIHandler()), arrangement)
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport) as http:
        yield http


async def document(http: httpx.AsyncClient, url: str) -> Any:
    response = await http.get(url)
    assert response.status_code == 200, (url, response.text)
    return response.json()


async def submit(http: httpx.AsyncClient, page: httpx.Response, **fields: str) -> httpx.Response:
    assert page.status_code == 200, page.text
    headers = {"Referer": str(page.url)}
    data = {**hidden(page.text), **fields}
    return await http.post(page.url, data=data, headers=headers)


async def follow(http: httpx.AsyncClient, response: httpx.Response) -> httpx.Response:
    assert response.status_code == 302, response.text
    return await http.get(urljoin(str(response.url), response.headers["Location"]))


async def whoami(http: httpx.AsyncClient, token: str | None) -> httpx.Response:
    params = {
        "name": "whoami",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "whoami",
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await http.post(ENDPOINT, content=json.dumps(message), headers=headers)


@pytest.mark.django_db(transaction=True)
async def test_whole_flow_below_a_prefix(arrangement: Arrangement) -> None:
    await User.objects.acreate_user("ann", password="secret")
    async with site(arrangement) as http:
        # Discovery: the challenge, and the two documents at the paths of their RFCs.
        challenge = await whoami(http, None)
        assert challenge.status_code == 401
        resource_metadata = f"{ORIGIN}{RESOURCE_METADATA}/app/mcp"
        assert f'resource_metadata="{resource_metadata}"' in challenge.headers["WWW-Authenticate"]
        protected = await document(http, resource_metadata)
        issuer = ORIGIN + PREFIX
        assert protected["resource"] == ENDPOINT
        assert protected["authorization_servers"] == [issuer]
        metadata = await document(http, f"{ORIGIN}{METADATA}/app")
        assert metadata["issuer"] == issuer
        endpoints = [url for name, url in metadata.items() if name.endswith("_endpoint")]
        assert len(endpoints) == 4
        assert {url.partition("/o/")[0] for url in endpoints} == {issuer}

        # Registration.
        wanted = {"redirect_uris": [REDIRECT_URI], "token_endpoint_auth_method": "none"}
        registered = await http.post(metadata["registration_endpoint"], json=wanted)
        assert registered.status_code == 201, registered.text
        assert registered.json()["registration_client_uri"].startswith(f"{issuer}/o/register/")

        # The user logs in, comes back to the consent page, and allows the access.
        parameters = {
            "response_type": "code",
            "client_id": registered.json()["client_id"],
            "redirect_uri": REDIRECT_URI,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "scope": "mcp",
            "resource": ENDPOINT,
        }
        redirect = await http.get(metadata["authorization_endpoint"], params=parameters)
        assert urlsplit(redirect.headers["Location"]).path == "/app/accounts/login/"
        login = await follow(http, redirect)
        logged_in = await submit(http, login, username="ann", password="secret")
        consent = await follow(http, logged_in)
        assert consent.url.path == "/app/o/authorize"
        allowed = await submit(http, consent, allow="on")
        assert allowed.headers["Location"].startswith(REDIRECT_URI), allowed.text
        answer = query(allowed.headers["Location"])
        assert answer["iss"] == issuer

        # The token, and the call; then a refresh, and another call.
        fields = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "client_id": parameters["client_id"],
            "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER,
            "resource": ENDPOINT,
        }
        tokens = (await http.post(metadata["token_endpoint"], data=fields)).json()
        assert (await whoami(http, tokens["access_token"])).status_code == 200
        fields = {
            "grant_type": "refresh_token",
            "client_id": parameters["client_id"],
            "refresh_token": tokens["refresh_token"],
        }
        refreshed = (await http.post(metadata["token_endpoint"], data=fields)).json()
        called = await whoami(http, refreshed["access_token"])
        assert called.json()["result"]["content"][0]["text"].startswith("ann by ")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "document_path",
    [
        f"{RESOURCE_METADATA}/app/mcp",
        f"/app/mcp{RESOURCE_METADATA}",
        f"/app{RESOURCE_METADATA}/mcp",
        f"{METADATA}/app",
        f"/app{METADATA}",
    ],
)
async def test_metadata_is_wherever_clients_look_for_it(
    arrangement: Arrangement, document_path: str
) -> None:
    async with site(arrangement) as http:
        found = await document(http, ORIGIN + document_path)
        assert found.get("resource", found.get("issuer")) in (ENDPOINT, ORIGIN + PREFIX)


async def test_issuer_of_another_prefix_has_no_metadata(arrangement: Arrangement) -> None:
    async with site(arrangement) as http:
        assert (await http.get(f"{ORIGIN}{METADATA}/apple")).status_code == 404


async def test_script_name_with_a_slash_at_its_end_resolves_as_django_does(
    settings: Settings,
) -> None:
    settings.FORCE_SCRIPT_NAME = f"{PREFIX}/"
    arrangement = Arrangement(is_in_path=False)
    async with site(arrangement) as http:
        found = await document(http, f"{ORIGIN}{METADATA}/app")
        assert found["issuer"] == ORIGIN + PREFIX
