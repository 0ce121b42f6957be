"""The network by which callers without a name are counted."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network

from django_mcp.protocol.limits import cut


@lru_cache(maxsize=512)
def network_of(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 one, which a single caller may have."""
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return cut(address)  # An IPv4 address, the path of a socket, or nothing.
    return str(parsed.ipv4_mapped or IPv6Network((parsed, 64), strict=False))
