"""The language of a request, by the rules of LocaleMiddleware: its cookie, then Accept-Language.

The path does not count: it belongs to an MCP server.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.http import HttpRequest, parse_cookie
from django.utils import translation

MAX_LENGTH = 500
"""Bytes of an Accept-Language header which are read, as many as Django reads."""


def activate(accepted: bytes | None, cookies: bytes | None) -> translation.override | None:
    """Activate the language of a request; its ``__exit__`` restores the previous one.

    Returns None where the request names no language, or USE_I18N is off.
    """
    if not settings.USE_I18N:
        return None
    chosen = "" if cookies is None else _cookie(cookies)
    if not accepted and not chosen:
        return None
    override = translation.override(_language((accepted or b"")[:MAX_LENGTH], chosen))
    override.__enter__()
    return override


def _cookie(cookies: bytes) -> str:
    name = settings.LANGUAGE_COOKIE_NAME
    if name.encode() not in cookies:
        return ""
    return parse_cookie(cookies.decode("latin-1")).get(name, "")[:MAX_LENGTH]


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
