"""May this Origin talk to us, and is this Host ours.

The guard against DNS rebinding (specification, basic/transports, "Security"): whoever does not
say where it comes from is no browser and passes; whoever says so must be known. What cannot be
read is refused. Knows no settings; ``allowed_hosts`` has the meaning it has in Django.
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

# A DNS name has at most 253 characters: longer is not a host, and is not worth remembering.
_MAX_LENGTH = 300


class Origin(NamedTuple):
    """An origin, or the place a request was sent to; the port is None where none is known."""

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
    """Whether a request from ``origin``, sent to ``scheme``://``host``, may be served.

    ``allowed_origins`` lists "https://app.example.com", "https://*.example.com" (its subdomains)
    or "*". Otherwise the origin's host must match ``allowed_hosts``, where "*" vouches for no
    stranger: it lets in only the very place the request was sent to. A page from plain http is
    trusted over https only when listed, because anybody on its network may have written it.
    """
    if origin is None:
        return True
    if len(origin) > _MAX_LENGTH or len(host) > _MAX_LENGTH:
        return False
    return _allows(origin, host, scheme, tuple(allowed_hosts), tuple(allowed_origins))


def host_allowed(host: str, allowed_hosts: Sequence[str]) -> bool:
    """Whether the Host header names one of ``allowed_hosts``, as Django reads them."""
    return len(host) <= _MAX_LENGTH and _host_allowed(host, tuple(allowed_hosts))


def is_pattern(text: str) -> bool:
    """Whether ``text`` can stand in ``allowed_origins``; for the check of a setting."""
    return text == "*" or parse(text.replace("://*.", "://", 1)) is not None


@lru_cache(maxsize=512)
def parse(origin: str) -> Origin | None:
    """The origin taken apart, with its scheme's default port; None when it is malformed."""
    # Lowering some letters outside ASCII yields letters inside it.
    found = _ORIGIN.fullmatch(origin.lower()) if origin.isascii() else None
    return None if found is None else _parsed_origin(found[1], found[2], found[3])


@lru_cache(maxsize=1024)
def _allows(
    origin: str, host: str, scheme: str, hosts: tuple[str, ...], origins: tuple[str, ...]
) -> bool:
    place = parse(origin)
    if place is None:
        return False
    if any(_is_listed(place, pattern) for pattern in origins):
        return True
    if place.scheme not in _DEFAULT_PORTS or (place.scheme, scheme) == ("http", "https"):
        return False
    return _matches(place.host, hosts) or ("*" in hosts and place == _addressed(host, scheme))


@lru_cache(maxsize=512)
def _host_allowed(host: str, hosts: tuple[str, ...]) -> bool:
    place = _addressed(host, "")
    return place is not None and ("*" in hosts or _matches(place.host, hosts))


def _is_listed(place: Origin, pattern: str) -> bool:
    if pattern == "*":
        return True
    scheme, star, rest = pattern.partition("://*.")
    listed = parse(f"{scheme}://{rest}" if star else pattern)
    if listed is None or not star:
        return place == listed
    same_door = (place.scheme, place.port) == (listed.scheme, listed.port)
    return same_door and place.host.endswith(f".{listed.host}")


def _matches(host: str, patterns: Sequence[str]) -> bool:
    """Django's rule: the exact name, or ".example.com" for a domain and all below it."""
    return any(
        host == pattern or (pattern[:1] == "." and (host.endswith(pattern) or host == pattern[1:]))
        for pattern in map(str.lower, patterns)
    )


def _addressed(host: str, scheme: str) -> Origin | None:
    found = _HOST_HEADER.fullmatch(host.lower()) if host.isascii() else None
    return None if found is None else _parsed_origin(scheme, found[1], found[2])


def _parsed_origin(scheme: str, host: str, port: str | None) -> Origin | None:
    number = int(port) if port else _DEFAULT_PORTS.get(scheme)
    name = host.removesuffix(".")
    if not name or (number is not None and number > 65535):
        return None
    return Origin(scheme, name, number)
