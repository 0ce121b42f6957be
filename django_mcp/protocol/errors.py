"""What can go wrong, by name and by whose fault it is.

An error knows its reason, never its number: the number, and the HTTP status it deserves,
differ between revisions and are asked of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

Json = Mapping[str, Any]


class ToolError(Exception):
    """Raised by a tool for the model to read: a failure which it can act upon.

    The text travels as an ordinary result with ``isError`` set (specification, server/tools,
    "Error handling"), so write it for the model: what did not work and what to try instead.
    """


class McpError(Exception):
    """Raised by a handler for the client program to read: a JSON-RPC error.

    ``code`` overrides the number which the revision has for the reason; an application's own
    codes lie outside -32768..-32000. ``data`` is any JSON value.
    """

    reason: ClassVar[str] = "internal_error"
    default_message: ClassVar[str] = "Internal error"

    def __init__(
        self, message: str | None = None, *, data: Any = None, code: int | None = None
    ) -> None:
        self.message = self.default_message if message is None else message
        self.data = data
        self.code = code
        super().__init__(self.message)


class InternalError(McpError):
    """Our own fault. The message stays bland: it is read by strangers."""


class Cancelled(McpError):
    """The request was cancelled, and the transport cannot leave it unanswered."""

    reason = "cancelled"
    default_message = "Cancelled"


class ProtocolError(McpError):
    """The client's fault."""


class ParseError(ProtocolError):
    """The bytes are not JSON."""

    reason = "parse_error"
    default_message = "Parse error: the message is not valid JSON"


class InvalidRequest(ProtocolError):
    """The JSON is not a JSON-RPC message that may be sent now.

    ``request_id`` is the id which the answer repeats, where one could be read.
    """

    reason = "invalid_request"
    default_message = "Invalid request"

    def __init__(
        self,
        message: str | None = None,
        *,
        data: Any = None,
        code: int | None = None,
        request_id: str | int | None = None,
    ) -> None:
        super().__init__(message, data=data, code=code)
        self.request_id = request_id


class MethodNotFound(ProtocolError):
    """No such method in this revision, or its capability is not offered."""

    reason = "method_not_found"
    default_message = "Method not found"


class InvalidParams(ProtocolError):
    """The parameters of a known method do not fit it."""

    reason = "invalid_params"
    default_message = "Invalid params"


class ResourceNotFound(ProtocolError):
    """No such resource, or none that this caller may know of.

    Raised by the handler of a template, it lets the next matching template try.
    """

    reason = "resource_not_found"
    default_message = "Resource not found"

    @classmethod
    def at(cls, uri: str) -> ResourceNotFound:
        """The error for ``uri``, which its data repeats."""
        return cls(data={"uri": uri})


class HeaderMismatch(ProtocolError):
    """A header which mirrors the body is missing, malformed or says something else."""

    reason = "header_mismatch"
    default_message = "Header mismatch"


class ClientCapabilityMissing(ProtocolError):
    """The client did not declare a capability without which this request cannot be served."""

    reason = "client_capability_missing"
    default_message = "The client lacks a required capability"

    @classmethod
    def of(cls, capabilities: Json) -> ClientCapabilityMissing:
        """The error which names ``capabilities``, shaped like ClientCapabilities."""
        names = ", ".join(_paths(capabilities))
        return cls(
            f"This request needs a client with the capability {names}",
            data={"requiredCapabilities": capabilities},
        )


class UnsupportedProtocolVersion(ProtocolError):
    """The revision which the request names is not served here."""

    reason = "unsupported_protocol_version"
    default_message = "Unsupported protocol version"


class UrlElicitationRequired(ProtocolError):
    """The user has to visit a page first; ``data.elicitations`` says which."""

    reason = "url_elicitation_required"
    default_message = "This request needs the user to visit a page first"


def _paths(capabilities: Json) -> list[str]:
    """The dotted names of the innermost keys: ``{"sampling": {"tools": {}}}`` is sampling.tools."""
    paths: list[str] = []
    for name, inner in capabilities.items():
        below = _paths(inner) if isinstance(inner, Mapping) else []
        paths += [f"{name}.{path}" for path in below] or [name]
    return paths
