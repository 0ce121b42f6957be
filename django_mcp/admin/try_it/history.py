"""The last calls that a user has tried, in their session: encrypted, and gone with the logout."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.sessions.backends import signed_cookies
from django.http import HttpRequest
from django.utils import timezone

from django_mcp.core.protocol.errors import Json
from django_mcp.runtime.signing import DjangoSigner

KEY = "django_mcp_tried"
PURPOSE = "tried calls"
MAX_CALLS = 20
"""Calls of all components together."""
MAX_LENGTH = 20_000
"""Characters of them: calls with long arguments leave room for fewer."""


class Tried(NamedTuple):
    """A call that was tried."""

    component: str
    """The identity of the component."""
    params: Json
    at: str
    """In ISO format."""

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.at)

    @property
    def summary(self) -> str:
        """The arguments in a line."""
        values = self.params.get("arguments", self.params.get("uri"))
        return values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)


def add(request: HttpRequest, component: str, params: Json) -> None:
    """Keep a call, as the newest one. A session in a cookie has no room for it."""
    if isinstance(request.session, signed_cookies.SessionStore):
        return
    call = (component, params)
    others = [item for item in _all(request) if (item.component, item.params) != call]
    kept = [Tried(component, params, timezone.now().isoformat()), *others][:MAX_CALLS]
    while len(text := json.dumps(kept, default=str)) > MAX_LENGTH:
        kept.pop()
    request.session[KEY] = DjangoSigner().sign(PURPOSE, text)


def of_component(request: HttpRequest, component: str) -> list[Tried]:
    """Return the calls of a component that were tried, the newest first."""
    return [item for item in _all(request) if item.component == component]


def _all(request: HttpRequest) -> list[Tried]:
    text = DjangoSigner().unsign(PURPOSE, request.session.get(KEY, ""))
    stored: list[Any] = json.loads(text) if text else []
    return [Tried(*item) for item in stored]
