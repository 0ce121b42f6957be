"""The value that describes how a message arrived: over HTTP or over stdio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from django_mcp.core.protocol.limits import network_of

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Principal
    from django_mcp.core.frame.exchange import Exchange

from django_mcp.core.protocol.limits import quoted


class _Values:
    """Immutable values by name.

    They are no dataclass, whose fields pydantic serializes: a handler that returns its transport
    by mistake must not send headers, cookies or the environment.
    """

    __slots__ = ()
    type: str

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Values)
            and self.type == other.type
            and self.values() == other.values()
        )

    __hash__ = None  # type: ignore[assignment]  # As that of a mapping: it contains some.

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def values(self) -> dict[str, Any]:
        """The arguments of an equal transport."""
        return {name: getattr(self, name) for name in NAMES[self.type]}


class HttpTransport(_Values):
    """A message over HTTP (``http_t`` of anubis_mcp). Header names are lower-case."""

    __slots__ = (
        "host",
        "path_params",
        "port",
        "query_params",
        "remote_ip",
        "req_headers",
        "request_path",
        "scheme",
    )
    type: Literal["http"] = "http"
    req_headers: Sequence[tuple[str, str]]
    query_params: Mapping[str, str] | None
    remote_ip: str | None
    scheme: str
    host: str
    port: int
    request_path: str
    path_params: Mapping[str, Any] | None

    def __init__(
        self,
        *,
        req_headers: Sequence[tuple[str, str]] = (),
        query_params: Mapping[str, str] | None = None,
        remote_ip: str | None = None,
        scheme: str = "http",
        host: str = "",
        port: int = 80,
        request_path: str = "/",
        path_params: Mapping[str, Any] | None = None,
    ) -> None:
        self._set(
            req_headers=req_headers,
            query_params=query_params,
            remote_ip=remote_ip,
            scheme=scheme,
            host=host,
            port=port,
            request_path=request_path,
            path_params=path_params,
        )

    def __repr__(self) -> str:
        """Show names, never values: headers and queries have credentials."""
        headers = quoted(", ".join(name for name, _ in self.req_headers))
        query = quoted(", ".join(self.query_params or ()))
        return f"<HttpTransport headers={headers} query={query}>"


class StdioTransport(_Values):
    """A message over stdio (``stdio_t`` of anubis_mcp): the process and its environment."""

    __slots__ = ("env", "os_pid")
    type: Literal["stdio"] = "stdio"
    env: Mapping[str, str]
    os_pid: int

    def __init__(self, *, env: Mapping[str, str] | None = None, os_pid: int = 0) -> None:
        self._set(env={} if env is None else env, os_pid=os_pid)

    def __repr__(self) -> str:
        """Show the number of variables: the environment has credentials."""
        return f"<StdioTransport pid={self.os_pid} env={len(self.env)}>"

    @property
    def pid(self) -> str:
        """The process id as a string, as anubis_mcp documents it."""
        return str(self.os_pid)


NAMES: Mapping[str, Sequence[str]] = {
    kind.type: kind.__slots__ for kind in (HttpTransport, StdioTransport)
}
"""The names of the values of each transport, also of one that reads them on access."""

Transport = HttpTransport | StdioTransport

TRANSPORTS: Mapping[str, Any] = {"http": HttpTransport, "stdio": StdioTransport}


def caller_key(principal: Principal, transport: Transport | None) -> str:
    """Return the key of a caller for every limit: for anonymous ones, with their address.

    The address is the one that the ASGI server passes on, which knows the trusted proxies. Of an
    IPv6 address only the network counts, because one client has all the addresses of a /64. Values
    of the server's path do not count, because a caller may choose them.
    """
    identity = principal.identity
    if principal.subject or not isinstance(transport, HttpTransport):
        return identity
    return f"{identity} {network_of(transport.remote_ip or '')}"


answering: ContextVar[Exchange | None] = ContextVar("django_mcp.answering", default=None)
"""The message that is answered; None before its sender is authenticated."""


def current_caller() -> str | None:
    """The ``caller_key`` of the message that is answered in this context, if there is one."""
    call = answering.get()
    return None if call is None else caller_key(call.principal, call.transport)
