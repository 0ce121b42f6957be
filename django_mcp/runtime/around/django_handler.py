"""Parts of Django's handler, for HTTP requests to MCP servers: its signals, and the language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core import signals
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.signals import setting_changed
from django.db import close_old_connections, reset_queries
from django.dispatch import Signal
from django.http import HttpRequest, parse_cookie
from django.utils import translation

# ``request_started`` and ``request_finished``.

OWN = frozenset(map(id, (reset_queries, close_old_connections, close_caches, reset_urlconf)))
"""The receivers that Django itself connects, by their id in a Signal."""


class OtherReceivers:
    """The receivers of both signals besides Django's own.

    Django's own receivers close old connections and forget logged queries. ``runtime.connections``
    does that for each thread, and their change of threads would cost as much as a whole call. So
    the signals are sent to all other receivers, and not at all where there are none.
    """

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        """All receivers, as they were at the last ``update``."""
        self.are_any = False
        """Whether the signals have to be sent."""
        self.started = Signal()
        self.finished = Signal()

    def update(self) -> None:
        self.seen = [[*signal.receivers] for signal in SIGNALS]
        for signal, receivers in zip((self.started, self.finished), self.seen, strict=True):
            # The first member of an entry names the receiver, and its sender.
            signal.receivers = [each for each in receivers if each[0][0] not in OWN]
        self.are_any = bool(self.started.receivers or self.finished.receivers)


SIGNALS = (signals.request_started, signals.request_finished)
OTHERS = OtherReceivers()


async def send_started(sender: type, scope: Mapping[str, Any]) -> None:
    """Send ``request_started`` as Django's ASGI handler does it."""
    await OTHERS.started.asend(sender=sender, scope=scope)


async def send_finished(sender: type) -> None:
    """Send ``request_finished``; its receivers run on the thread of the request."""
    await OTHERS.finished.asend(sender=sender)


# The language, by the rules of LocaleMiddleware: its cookie, then Accept-Language. The path does
# not count: it belongs to an MCP server.

MAX_LENGTH = 500
"""Bytes of an Accept-Language header which are read, as many as Django reads."""


def activate_language(accepted: bytes | None, cookies: bytes | None) -> translation.override | None:
    """Activate the language of a request; its ``__exit__`` restores the previous one.

    Returns None where the request names no language, or USE_I18N is off.
    """
    if not settings.USE_I18N:
        return None
    chosen = ""
    name = settings.LANGUAGE_COOKIE_NAME
    if cookies is not None and name.encode() in cookies:
        chosen = parse_cookie(cookies.decode("latin-1")).get(name, "")[:MAX_LENGTH]
    if not accepted and not chosen:
        return None
    override = translation.override(_language((accepted or b"")[:MAX_LENGTH], chosen))
    override.__enter__()
    return override


@lru_cache(maxsize=1024)
def _language(accepted: bytes, chosen: str) -> str:
    request = HttpRequest()
    request.META["HTTP_ACCEPT_LANGUAGE"] = accepted.decode("latin-1")
    if chosen:
        request.COOKIES[settings.LANGUAGE_COOKIE_NAME] = chosen
    return translation.get_language_from_request(request)


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting in {"LANGUAGES", "LANGUAGE_CODE", "LANGUAGE_COOKIE_NAME"}:
        _language.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.language")
