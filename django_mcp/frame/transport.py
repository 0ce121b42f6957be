"""The value that describes how a message arrived: over HTTP or over stdio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any, Literal

from django_mcp.protocol.limits import cut

if TYPE_CHECKING:
    from django_mcp.auth.base import Principal

from django_mcp.protocol.limits import quoted


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpTransport:
    """A message over HTTP (the seeds' ``http_t``). Header names are lower-case."""

    req_headers: Sequence[tuple[str, str]] = ()
    query_params: Mapping[str, str] | None = None
    remote_ip: str | None = None
    scheme: str = "http"
    host: str = ""
    port: int = 80
    request_path: str = "/"
    path_params: Mapping[str, Any] | None = None
    type: Literal["http"] = "http"

    def __repr__(self) -> str:
        """Show names, never values: headers and queries have credentials."""
        headers = quoted(", ".join(name for name, _ in self.req_headers))
        query = quoted(", ".join(self.query_params or ()))
        return f"<HttpTransport headers={headers} query={query}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StdioTransport:
    """A message over stdio (the seeds' ``stdio_t``): the process and its environment."""

    env: Mapping[str, str] = field(default_factory=dict)
    os_pid: int = 0
    type: Literal["stdio"] = "stdio"

    def __repr__(self) -> str:
        """Show the number of variables: the environment has credentials."""
        return f"<StdioTransport pid={self.os_pid} env={len(self.env)}>"

    @property
    def pid(self) -> str:
        """The process id as a string, as in the seeds' documentation."""
        return str(self.os_pid)


Transport = HttpTransport | StdioTransport

TRANSPORTS: Mapping[str, Any] = {"http": HttpTransport, "stdio": StdioTransport}


def caller_key(principal: Principal, transport: Transport | None) -> str:
    """By what limits count a caller: the principal and, for anonymous callers, the IP address.

    The address is the one that the ASGI server passes on, which knows the trusted proxies. Of an
    IPv6 address only the network counts, because one client has all the addresses of a /64.
    """
    if principal.subject or not isinstance(transport, HttpTransport):
        return principal.key
    return f"{principal.key} {_network(transport.remote_ip or '')}"


@lru_cache(maxsize=512)
def _network(address: str) -> str:
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return cut(address)  # An IPv4 address, the path of a socket, or nothing.
    return str(parsed.ipv4_mapped or IPv6Network((parsed, 64), strict=False))
