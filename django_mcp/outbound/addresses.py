"""Addresses of hosts: which URLs are secure, and which addresses belong to the internet."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Its addresses end with an IPv4 address (RFC 6052)."""
RESERVED = [*map(ipaddress.ip_network, ("64:ff9b:1::/48", "fec0::/10", "::/96"))]
"""NAT64 within a site (RFC 8215), the site-local and the IPv4-compatible addresses of the past,
which Python takes for global ones."""


def is_public(text: str) -> bool:
    """Whether an address is one of the internet, and so is the IPv4 address that it contains."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    contained = _contained(address) if isinstance(address, IPv6Address) else []
    return all(map(_is_global, contained or [address]))


def _contained(address: IPv6Address) -> Sequence[IPv4Address | IPv6Address]:
    if address.teredo is not None:
        return address.teredo
    if address in NAT64:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    mapped = address.ipv4_mapped or address.sixtofour
    return [] if mapped is None else [mapped]


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    is_reserved = address.is_multicast or any(address in network for network in RESERVED)
    return address.is_global and not is_reserved


def is_secure(url: str) -> bool:
    """Whether requests to ``url`` are encrypted, or do not leave this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port  # It raises ValueError for what is no port.
    except ValueError:
        return False
    if not host or any(character <= " " for character in url) or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is named localhost or is a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
