"""The discovery of an authorization server: its metadata, which has to name the same issuer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django_mcp.auth.issuers.fetching import FETCH_TIMEOUT, NotFound, Unavailable, fetch_json

DISCOVERY_TIMEOUT = 10.0
"""Seconds for all possible URLs of metadata."""


def discover(issuer: str) -> Mapping[str, Any]:
    """Return the metadata of ``issuer`` (RFC 8414, OpenID Connect Discovery); raises Unavailable.

    It blocks. Metadata that names another issuer is not used (RFC 8414, section 3.3).
    """
    until = time.monotonic() + DISCOVERY_TIMEOUT
    problem: Unavailable = NotFound(f"{issuer} has no metadata: name its jwks_url")
    for url in metadata_urls(issuer):
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            document = fetch_json(url, timeout=min(FETCH_TIMEOUT, left))
        except NotFound:
            continue
        if document.get("issuer") == issuer:
            return document
        problem = Unavailable(f"{url} does not name the issuer {issuer}")
    raise problem


def metadata_urls(issuer: str) -> Iterator[str]:
    """The URLs of issuers' metadata: before their path, and after it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    paths = [f"/.well-known/{name}{path}" for name in names]
    paths += [f"{path}/.well-known/{name}" for name in reversed(names)]
    for place in dict.fromkeys(paths):
        yield urlunsplit(parts._replace(path=place, query=""))
