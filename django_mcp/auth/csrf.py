"""Recognize requests of pages of other origins, which have the user's cookies.

The rules follow Django's CsrfViewMiddleware, without its token: programs have no token,
and all browsers that are in use state the origin of a request.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from django_mcp import conf
from django_mcp.auth.resource import request_origin
from django_mcp.core.auth.base import Scope, header
from django_mcp.core.protocol import origins

OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site: a page of this origin, and the user, without any page."""


def is_cross_origin(scope: Scope) -> bool:
    """Whether the request states that it comes from an origin other than this site's.

    The origins in ``CSRF_TRUSTED_ORIGINS`` count as own. Of ``Origin``, ``Sec-Fetch-Site`` and
    ``Referer``, the first one that is there decides; the requests of programs have none of them.
    """
    origin = header(scope, b"origin")
    if origin is not None:
        return not _is_own(scope, origin)
    site = header(scope, b"sec-fetch-site")
    if site is not None:
        return site not in OWN_SITES
    referer = header(scope, b"referer")
    return bool(referer) and not _is_own(scope, _origin_of(referer or ""))


def _is_own(scope: Scope, origin: str) -> bool:
    own = (request_origin(scope), _origin_of(conf.get().base_url or ""))
    trusted = [item for item in settings.CSRF_TRUSTED_ORIGINS if item != "*"]
    return origins.allows(
        origin, host="", scheme="", allowed_hosts=(), allowed_origins=(*filter(None, own), *trusted)
    )


def _origin_of(url: str) -> str:
    """Return scheme and host of a URL, or "" if it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
