"""The value that describes how a message arrived: over HTTP or over stdio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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
