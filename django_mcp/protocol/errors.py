"""What can go wrong, by name and by whose fault it is.

An error knows its reason, never its number: the number, and the HTTP status it deserves,
differ between revisions and are asked of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from django_mcp.protocol import elicitation

Json = Mapping[str, Any]


class Numbering(Protocol):
    """A revision, as an error needs it: it knows the number of every reason."""

    def error(self, error: McpError, /) -> dict[str, Any]:
        """The error object for ``error``."""
        ...


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

    # By the names which the seeds have for them.

    @staticmethod
    def protocol(reason: str, message: str | None = None, *, data: Any = None) -> McpError:
        """The protocol error of this reason, such as "invalid_params"; KeyError for another."""
        return PROTOCOL_ERRORS[reason](message, data=data)

    @staticmethod
    def parse_error(message: str | None = None, *, data: Any = None) -> ParseError:
        """What came is not JSON."""
        return ParseError(message, data=data)

    @staticmethod
    def invalid_request(message: str | None = None, *, data: Any = None) -> InvalidRequest:
        """What came is no message, or none that may be sent now."""
        return InvalidRequest(message, data=data)

    @staticmethod
    def method_not_found(message: str | None = None, *, data: Any = None) -> MethodNotFound:
        """There is no such method."""
        return MethodNotFound(message, data=data)

    @staticmethod
    def invalid_params(message: str | None = None, *, data: Any = None) -> InvalidParams:
        """The parameters do not fit the method."""
        return InvalidParams(message, data=data)

    @staticmethod
    def internal_error(message: str | None = None, *, data: Any = None) -> InternalError:
        """Our own fault."""
        return InternalError(message, data=data)

    @staticmethod
    def header_mismatch(message: str | None = None, *, data: Any = None) -> HeaderMismatch:
        """A header says something else than the body."""
        return HeaderMismatch(message, data=data)

    @staticmethod
    def missing_required_client_capability(capabilities: Json) -> MissingClientCapability:
        """The client lacks ``capabilities``, which are shaped like ClientCapabilities."""
        return MissingClientCapability.of(capabilities)

    @staticmethod
    def unsupported_protocol_version(
        requested: str, supported: Sequence[str]
    ) -> UnsupportedProtocolVersion:
        """The version is not served; ``supported`` are."""
        return UnsupportedProtocolVersion(data={"supported": [*supported], "requested": requested})

    @staticmethod
    def transport(reason: str, *, data: Any = None) -> TransportError:
        """The transport failed: ``reason`` in words, or a name such as "send_failure"."""
        return TransportError(_humanised(reason), data=data)

    @staticmethod
    def resource(reason: str = "not_found", *, data: Any = None) -> ResourceNotFound:
        """What is wrong with a resource: it cannot be found, and nothing else."""
        return RESOURCE_ERRORS[reason](data=data)

    @staticmethod
    def execution(message: str, *, data: Any = None) -> ExecutionError:
        """An application's own failure, told to the client program in free words."""
        return ExecutionError(message, data=data)

    @staticmethod
    def wrap(reason: object) -> McpError:
        """The error which ``reason`` means: an error itself, a text, or an exception.

        A text and a ToolError are meant to be read. Of any other exception nothing is told,
        for it speaks of our insides; it becomes the cause.
        """
        if isinstance(reason, McpError):
            return reason
        if isinstance(reason, (str, ToolError)):
            return ExecutionError(str(reason))
        wrapped = InternalError()
        wrapped.__cause__ = reason if isinstance(reason, BaseException) else None
        return wrapped

    # As it travels.

    def to_json_rpc(self, request_id: str | int | None, revision: Numbering) -> dict[str, Any]:
        """The response that is this error; the id is left out, never invented, when unknown."""
        identified = {} if request_id is None else {"id": request_id}
        return {"jsonrpc": "2.0", **identified, "error": revision.error(self)}

    @classmethod
    def from_json_rpc(cls, response: Json) -> McpError:
        """The error in a response; raises KeyError for one that is none."""
        error = response["error"]
        return McpError(error["message"], data=error.get("data"), code=error["code"])


class InternalError(McpError):
    """Our own fault. The message stays bland: it is read by strangers."""


class Cancelled(McpError):
    """The request was cancelled, and the transport cannot leave it unanswered."""

    reason = "cancelled"
    default_message = "Cancelled"


class ExecutionError(McpError):
    """An application's own failure, as a protocol error: a tool rather raises ToolError."""

    reason = "execution_error"
    default_message = "Execution failed"


class TransportError(McpError):
    """A message could not be carried."""

    reason = "transport_error"
    default_message = "Transport error"


class ClientError(McpError):
    """The client answered a question with an error; ``code``, ``message`` and ``data`` are its own.

    They mean something in the client's answer and nothing in ours, so a handler which lets it pass
    has failed like any other: a tool says so to the model, anything else is an internal error.
    """

    @property
    def told(self) -> str:
        """What is told of it."""
        return f"The client refused what it was asked: {self.message}"


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


class MissingClientCapability(ProtocolError):
    """The client did not declare a capability without which this request cannot be served."""

    reason = "client_capability_missing"
    default_message = "The client lacks a required capability"

    @classmethod
    def of(cls, capabilities: Json) -> MissingClientCapability:
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
    """The user has to visit a page first; ``data.elicitations`` says which.

    A client which cannot send her there is told that it lacks the capability; where a revision
    asks by rounds, it is asked, and the handler runs again when she has been there.
    """

    reason = "url_elicitation_required"
    default_message = "This request needs the user to visit a page first"

    @classmethod
    def at(
        cls, url: str, message: str, *, elicitation_id: str | None = None
    ) -> UrlElicitationRequired:
        """The error which sends the user to ``url``; ``message`` tells her why.

        ``elicitation_id`` is what ``notifications/elicitation/complete`` will name.
        """
        return cls(
            data={
                "elicitations": [elicitation.url_elicitation_params(url, message, elicitation_id)]
            }
        )

    @property
    def elicitations(self) -> list[Json]:
        """The pages to be visited, as ``elicitation/create`` would name them."""
        return list((self.data or {}).get("elicitations", ()))


def _paths(capabilities: Json) -> list[str]:
    """The dotted names of the innermost keys: ``{"sampling": {"tools": {}}}`` is sampling.tools."""
    paths: list[str] = []
    for name, inner in capabilities.items():
        below = _paths(inner) if isinstance(inner, Mapping) else []
        paths += [f"{name}.{path}" for path in below] or [name]
    return paths


def _humanised(reason: str) -> str:
    return reason.replace("_", " ").capitalize() if reason.isidentifier() else reason


PROTOCOL_ERRORS: Mapping[str, Callable[..., McpError]] = {
    "parse_error": ParseError,
    "invalid_request": InvalidRequest,
    "method_not_found": MethodNotFound,
    "invalid_params": InvalidParams,
    "internal_error": InternalError,
    "header_mismatch": HeaderMismatch,
    "missing_required_client_capability": MissingClientCapability,
    "unsupported_protocol_version": UnsupportedProtocolVersion,
}
"""The errors of the protocol, by the names of the seeds."""

RESOURCE_ERRORS: Mapping[str, Callable[..., ResourceNotFound]] = {"not_found": ResourceNotFound}
