"""A shop with components of each kind, and users of the admin with some permissions."""

from __future__ import annotations

import re
from datetime import UTC
from html import unescape
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser
from django.utils import timezone

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.contrib.call_log.models import Call, class_of
from django_mcp.registry import Entry

TAG = re.compile(r"<[^>]+>")


def shop() -> Server:
    server = Server(
        "shop",
        title="The shop",
        instructions="Begin with stock.",
        authenticators=[AnonymousAuthentication()],
        group_scopes={"office": ["office"], "counter": []},
    )
    server.tool(name="stock", group="counter")(lambda: 3)
    server.tool(name="order", group="office")(lambda: "ordered")
    server.tool(name="audit", permission="auth.view_user")(lambda: "fine")
    server.tool(name="close", scopes={"write"})(lambda: "closed")
    server.resource("shop://news", name="news")(lambda: "Nothing new")
    server.prompt(name="greet")(lambda: "Hello")
    return server


def entry_of(server: Server, name: str) -> Entry:
    return next(entry for entry in registry.entries(server) if entry.component.name == name)


def browser_of(name: str, *permissions: str, is_staff: bool = True) -> Browser:
    """The browser of a user with these permissions."""
    user = get_user_model().objects.create_user(name, is_staff=is_staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Browser()
    browser.force_login(user)
    return browser


def text_of(response: Any) -> str:
    """What a page says, without markup, in one line."""
    assert response.status_code == 200, response
    html = response.content.decode()
    content = html[html.index('<div id="content"') :]
    return " ".join(unescape(TAG.sub(" ", content)).split())


def call(**columns: Any) -> None:
    now = timezone.now()
    known = {
        "server": "shop",
        "kind": "tool",
        "component": "stock",
        "target": "stock",
        "principal": "token:1",
        "revision": "2026-07-28",
        "client_name": "Robot",
        "client_version": "2",
        "outcome": "ok",
        "is_error": False,
    }
    Call.objects.create(
        called_at=now,
        day=now.astimezone(UTC).date(),
        duration=0.01,
        duration_class=class_of(0.01),
        **{**known, **columns},
    )
