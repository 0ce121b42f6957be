"""Requests from the site to other hosts, guarded against server-side request forgery."""

from django_mcp.outbound.requests import (
    Document,
    OutboundError,
    Reason,
    Response,
    check_url,
    download,
    fetch,
    is_loopback,
    is_public,
    is_secure,
    open_url,
)

__all__ = [
    "Document",
    "OutboundError",
    "Reason",
    "Response",
    "check_url",
    "download",
    "fetch",
    "is_loopback",
    "is_public",
    "is_secure",
    "open_url",
]
