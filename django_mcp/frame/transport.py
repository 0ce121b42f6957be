"""The value that describes how a message arrived: over HTTP or over stdio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTransport:
    """A message over stdio (the seeds' ``stdio_t``): the process and its environment."""

    env: Mapping[str, str] = field(default_factory=dict)
    os_pid: int = 0
    type: Literal["stdio"] = "stdio"

    @property
    def pid(self) -> str:
        """The process id as a string, as in the seeds' documentation."""
        return str(self.os_pid)


Transport = HttpTransport | StdioTransport

TRANSPORTS: Mapping[str, Any] = {"http": HttpTransport, "stdio": StdioTransport}
