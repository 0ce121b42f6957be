"""A client which goes through the whole flow, and the browser of its user."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connections
from django.http import HttpResponse
from django.test import Client as Browser
from django.utils import timezone

from django_mcp.routing import mount
from django_mcp.testing.asgi import Reply, http_scope, perform

SITE = "https://site.example"
ENDPOINT = f"{SITE}/mcp"
CLIENTS = Path(__file__).parent / "clients"
CALLBACK = "https://claude.ai/api/mcp/auth_callback"
VERIFIER = "v" * 64
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
INPUT = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
PAGE: dict[str, Any] = {"secure": True, "HTTP_HOST": "site.example"}


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CLIENTS / f"{name}.json").read_text())
    return found


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of a form."""
    return {name: unescape(value) for name, value in INPUT.findall(page)}


def query(url: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}


@dataclass
class Flow:
    """One client with one redirect URI, and the browser in which a user is logged in."""

    client_id: str
    redirect_uri: str
    user: User
    resource: str | None = ENDPOINT
    scope: str | None = "mcp"
    browser: Browser = field(default_factory=lambda: Browser(enforce_csrf_checks=True))

    def __post_init__(self) -> None:
        self.browser.force_login(self.user)

    def parameters(self, **changes: str | None) -> dict[str, str]:
        """Those of an authorization request; None leaves one out."""
        found = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": "s t&1",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "scope": self.scope,
            "resource": self.resource,
            **changes,
        }
        return {key: value for key, value in found.items() if value is not None}

    def open(self, **changes: str | None) -> HttpResponse:
        """Open the consent page."""
        response = self.browser.get("/o/authorize", self.parameters(**changes), **PAGE)
        assert isinstance(response, HttpResponse)
        return response

    def answer(self, page: HttpResponse, *, allow: bool = True, **changes: str) -> HttpResponse:
        """Answer its form."""
        fields = hidden(page.content.decode()) | ({"allow": "on"} if allow else {}) | changes
        headers: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/authorize"}
        response = self.browser.post("/o/authorize", fields, **PAGE, **headers)
        assert isinstance(response, HttpResponse)
        return response

    def code(self, **changes: str | None) -> str:
        page = self.open(**changes)
        assert page.status_code == 200, page
        redirect = self.answer(page)
        assert redirect.status_code == 302, redirect.content
        assert redirect["Location"].startswith(self.redirect_uri)
        found = query(redirect["Location"])
        assert found["iss"] == SITE
        assert found["state"] == "s t&1"
        return found["code"]

    def token(self, code: str, **changes: str | None) -> HttpResponse:
        """Redeem a code."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": VERIFIER,
            "resource": self.resource,
            **changes,
        }
        return post("/o/token", {key: value for key, value in fields.items() if value is not None})

    def refresh(self, refresh_token: str, **changes: str) -> HttpResponse:
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return post("/o/token", {**fields, "client_id": self.client_id, **changes})

    def revoke(self, token: str) -> HttpResponse:
        return post("/o/revoke", {"token": token, "client_id": self.client_id})

    def tokens(self, **changes: str | None) -> dict[str, Any]:
        response = self.token(self.code(**changes))
        assert response.status_code == 200, response.content
        found: dict[str, Any] = response.json()  # type: ignore[attr-defined]
        return found


def post(path: str, fields: Any, **extra: Any) -> HttpResponse:
    """Post as a client, without cookies."""
    response = Browser(enforce_csrf_checks=True).post(path, fields, **{**PAGE, **extra})
    assert isinstance(response, HttpResponse)
    return response


def call(token: str | None, tool: str = "whoami", path: str = "/mcp") -> Reply:
    """Call a tool of the mounted server."""
    params = {
        "name": tool,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers: Mapping[str, str] = {
        "host": "site.example",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
        **({"authorization": f"Bearer {token}"} if token else {}),
    }
    scope = http_scope("POST", path, headers=headers, scheme="https")
    return async_to_sync(perform)(mount(_elsewhere), scope, json.dumps(message).encode())


async def _elsewhere(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(scope["path"])


def issued(owner: User, **fields: Any) -> str:
    """Store an access token, and return it."""
    from oauth2_provider.models import AccessToken, Application

    application, _ = Application.objects.get_or_create(client_id="made")
    later = timezone.now() + timedelta(hours=1)
    values = {"expires": later, "scope": "mcp", "resource": [ENDPOINT], "user": owner, **fields}
    AccessToken.objects.create(token="t" * 30, application=application, **values)
    return "t" * 30


def at_once(number: int, request: Callable[[int], HttpResponse]) -> list[HttpResponse]:
    """Send requests from several threads at the same time; each is told its number."""
    barrier = threading.Barrier(number)

    def send(position: int) -> HttpResponse:
        barrier.wait()
        try:
            return request(position)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(number) as pool:
        return [*pool.map(send, range(number))]
