"""The rules for the Origin and Host headers, against DNS rebinding (basic/transports, "Security").

A request without Origin is not from a browser and is allowed; any other Origin must be allowed
explicitly. ``allowed_hosts`` has the meaning of ALLOWED_HOSTS in Django.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_HOST = r"([a-z0-9.-]+|\[[a-f0-9]*:[a-f0-9.:]+\])(?::([0-9]{1,5}))?"
_HOST_HEADER = re.compile(_HOST)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://" + _HOST)
_DEFAULT_PORTS = {"http": 80, "https": 443}

# A DNS name has at most 253 characters; longer values are not cached.
_MAX_LENGTH = 300


class Origin(NamedTuple):
    """An origin, or the target of a request; the port is None if it is unknown."""

    scheme: str
    host: str
    port: int | None


def allows(
    origin: str | None,
    *,
    host: str,
    scheme: str,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str],
) -> bool:
    """Whether a request from ``origin``, sent to ``scheme``://``host``, is allowed.

    ``allowed_origins`` lists "https://app.example.com", "https://*.example.com" (its subdomains)
    or "*". For any other origin, its host must match ``allowed_hosts``, where "*" matches only the
    target of the request. An http origin is allowed over https only when it is listed, because
    its pages can be modified by others on the network.
    """
    if origin is None:
        return True
    if len(origin) > _MAX_LENGTH or len(host) > _MAX_LENGTH:
        return False
    return _allows(origin, host, scheme, tuple(allowed_hosts), tuple(allowed_origins))


def host_allowed(host: str, allowed_hosts: Sequence[str]) -> bool:
    return len(host) <= _MAX_LENGTH and _host_allowed(host, tuple(allowed_hosts))


def is_pattern(text: str) -> bool:
    """Whether ``text`` is valid in ``allowed_origins``."""
    return text == "*" or parse(text.replace("://*.", "://", 1)) is not None


@lru_cache(maxsize=512)
def parse(origin: str) -> Origin | None:
    """Return the parsed origin with the default port of its scheme; None if it is malformed."""
    # Some letters outside ASCII have an ASCII letter as their lower case.
    match = _ORIGIN.fullmatch(origin.lower()) if origin.isascii() else None
    return None if match is None else _parsed_origin(*match.groups())


@lru_cache(maxsize=1024)
def _allows(
    origin: str, host: str, scheme: str, hosts: tuple[str, ...], origins: tuple[str, ...]
) -> bool:
    source = parse(origin)
    if source is None:
        return False
    if any(_is_listed(source, pattern) for pattern in origins):
        return True
    if source.scheme not in _DEFAULT_PORTS or (source.scheme, scheme) == ("http", "https"):
        return False
    return _matches(source.host, hosts) or ("*" in hosts and source == _target(host, scheme))


@lru_cache(maxsize=512)
def _host_allowed(host: str, hosts: tuple[str, ...]) -> bool:
    target = _target(host, "")
    return target is not None and ("*" in hosts or _matches(target.host, hosts))


def _is_listed(source: Origin, pattern: str) -> bool:
    if pattern == "*":
        return True
    scheme, star, rest = pattern.partition("://*.")
    listed = parse(f"{scheme}://{rest}" if star else pattern)
    if listed is None or not star:
        return source == listed
    is_same = (source.scheme, source.port) == (listed.scheme, listed.port)
    return is_same and source.host.endswith(f".{listed.host}")


def _matches(host: str, patterns: Sequence[str]) -> bool:
    """Apply Django's rule: an exact name, or ".example.com" with all its subdomains."""
    for pattern in map(str.lower, patterns):
        if host == pattern:
            return True
        if pattern.startswith(".") and (host.endswith(pattern) or host == pattern[1:]):
            return True
    return False


def _target(host: str, scheme: str) -> Origin | None:
    match = _HOST_HEADER.fullmatch(host.lower()) if host.isascii() else None
    return None if match is None else _parsed_origin(scheme, *match.groups())


def _parsed_origin(scheme: str, host: str, port: str | None) -> Origin | None:
    number = int(port) if port else _DEFAULT_PORTS.get(scheme)
    name = host.removesuffix(".")
    if not name or (number is not None and number > 65535):
        return None
    return Origin(scheme, name, number)
