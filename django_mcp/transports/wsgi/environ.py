"""The ASGI scope and the body of a WSGI request (PEP 3333)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from errno import ECONNRESET
from functools import lru_cache
from socket import SHUT_RD
from time import monotonic
from typing import Any, NamedTuple

from django_mcp.core.protocol.limits import natural

READ_AT_ONCE = 64 * 1024
"""Bytes of a body that are read in one step."""
UNPREFIXED = {"CONTENT_TYPE": b"content-type", "CONTENT_LENGTH": b"content-length"}
"""Variables that are headers of the request, although their names do not begin with ``HTTP_``."""
AS_HEADERS = frozenset({"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"})
"""Variables that some servers set besides the two above."""


def paths_of(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the scope that decides which application answers."""
    prefix = _decode(environ.get("SCRIPT_NAME", "")).rstrip("/")
    path = prefix + _decode(environ.get("PATH_INFO", ""))
    return {"type": "http", "path": path or "/", "root_path": prefix}


def scope_of(environ: Mapping[str, Any], paths: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the scope as an ASGI server makes it; ``paths`` is the value of ``paths_of``."""
    protocol = environ.get("SERVER_PROTOCOL", "HTTP/1.1")
    address = environ.get("REMOTE_ADDR")
    return {
        **(paths or paths_of(environ)),
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": protocol.rpartition("/")[2],
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": _headers(environ),
        # Some servers do not pass the port.
        "client": (address, _number(environ.get("REMOTE_PORT"))) if address else None,
        "server": (environ.get("SERVER_NAME", ""), _number(environ.get("SERVER_PORT"))),
    }


def _decode(path: str) -> str:
    """The text of a path. WSGI passes its bytes, which are UTF-8, as Latin-1."""
    return path if path.isascii() else path.encode("latin-1").decode("utf-8", "replace")


def _headers(environ: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    pairs = [
        (_header(name), value.encode("latin-1"))
        for name, value in environ.items()
        if name[:5] == "HTTP_" and name not in AS_HEADERS
    ]
    for name, header in UNPREFIXED.items():
        value = environ.get(name)
        if value:
            pairs.append((header, value.encode("latin-1")))
    return pairs


@lru_cache(maxsize=512)
def _header(variable: str) -> bytes:
    return variable[5:].lower().replace("_", "-").encode("latin-1")


def _number(text: Any) -> int:
    """A decimal number, or 0 for anything else: servers leave out variables, or pass them empty."""
    return natural(str(text or "")) or 0


def disconnected() -> ConnectionResetError:
    """Return an exception whose number servers recognise: they log no error."""
    return ConnectionResetError(ECONNRESET, "The client has disconnected")


class BodyPart(NamedTuple):
    content: bytes
    more: bool


IDLE = 60.0
"""Seconds until a client counts as disconnected that neither takes nor sends anything."""
MAX_READING = 90.0
"""Seconds for a client to send its whole body. The application has a shorter limit of its
own; this one frees the thread of the server that reads."""


class RequestBody:
    """The body of a request, read in parts, where it may block.

    Where the server passes on the socket of the client (gunicorn), neither reading nor writing
    waits for a client that does nothing, and ``abandon`` ends the wait for one that is slow.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.began = monotonic()
        self._socket = environ.get("gunicorn.socket")
        if self._socket is not None:
            self._socket.settimeout(IDLE)
        self._input = environ["wsgi.input"]
        self._left: int | None = _number(environ.get("CONTENT_LENGTH"))
        if not environ.get("CONTENT_LENGTH") and environ.get("wsgi.input_terminated"):
            self._left = None  # Chunked: the server says where it ends.

    def abandon(self) -> None:
        """End the wait for the rest of the body; called in any thread."""
        if self._socket is not None:
            with suppress(OSError):  # The client has gone meanwhile.
                self._socket.shutdown(SHUT_RD)

    @property
    def is_short(self) -> bool:
        """Whether the next part is the last one."""
        return self._left is not None and self._left <= READ_AT_ONCE

    def read(self) -> BodyPart:
        """Return the next part; raises OSError if the client breaks off before the end."""
        if self._left is None:
            content = self._read(READ_AT_ONCE)
            return BodyPart(content, more=bool(content))
        if self._left == 0:
            return BodyPart(b"", more=False)
        content = self._read(min(READ_AT_ONCE, self._left))
        if not content:
            raise disconnected()
        self._left -= len(content)
        return BodyPart(content, more=self._left > 0)

    def _read(self, size: int) -> bytes:
        try:
            content: bytes = self._input.read(size)
        except TimeoutError:
            raise disconnected() from None
        return content
