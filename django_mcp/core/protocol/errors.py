"""Errors, by name and by fault: a revision maps the reason of an error to code and HTTP status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from django_mcp.core.protocol import elicitation
from django_mcp.core.protocol.limits import cut

Json = Mapping[str, Any]


class ToolError(Exception):
    """Raised by a tool to report a failure to the model, which can act on it.

    Write the message for the model: what did not work, and what to try instead.
    """


class _Revision(Protocol):
    def error(self, error: McpError) -> dict[str, Any]: ...


class McpError(Exception):
    """Raised by a handler to send a JSON-RPC error to the client program.

    ``code`` overrides the revision's; codes of applications are outside -32768..-32000. ``data`` is
    any JSON value.
    """

    reason: ClassVar[str] = "internal_error"
    default_message: ClassVar[str] = "Internal error"
    retry_after: ClassVar[int | None] = None
    """Seconds until a client may send its request again. HTTP has a header for it."""
    request_id: str | int | None = None
    """The id for the response, if it could be read before the error was raised."""

    def __init__(
        self, message: str | None = None, *, data: Any = None, code: int | None = None
    ) -> None:
        self.message = self.default_message if message is None else message
        self.data = data
        self.code = code
        super().__init__(self.message)

    @staticmethod
    def protocol(reason: str, message: str | None = None, *, data: Any = None) -> McpError:
        """Return the protocol error of this reason ("invalid_params", …); KeyError if unknown."""
        return PROTOCOL_ERRORS[reason](message, data=data)

    @staticmethod
    def parse_error(message: str | None = None, *, data: Any = None) -> ParseError:
        """Return an error for a message that is not JSON."""
        return ParseError(message, data=data)

    @staticmethod
    def invalid_request(message: str | None = None, *, data: Any = None) -> InvalidRequest:
        """Return an error for JSON that is not a message, or not one that may be sent now."""
        return InvalidRequest(message, data=data)

    @staticmethod
    def method_not_found(message: str | None = None, *, data: Any = None) -> MethodNotFound:
        """Return an error for an unknown method."""
        return MethodNotFound(message, data=data)

    @staticmethod
    def invalid_params(message: str | None = None, *, data: Any = None) -> InvalidParams:
        """Return an error for parameters that are invalid for the method."""
        return InvalidParams(message, data=data)

    @staticmethod
    def internal_error(message: str | None = None, *, data: Any = None) -> InternalError:
        """Return an error for a failure of the server."""
        return InternalError(message, data=data)

    @staticmethod
    def header_mismatch(message: str | None = None, *, data: Any = None) -> HeaderMismatch:
        """Return an error for a header that differs from the body."""
        return HeaderMismatch(message, data=data)

    @staticmethod
    def missing_required_client_capability(capabilities: Json) -> MissingClientCapability:
        """Return an error for a client without ``capabilities``, a ClientCapabilities object."""
        return MissingClientCapability.of(capabilities)

    @staticmethod
    def unsupported_protocol_version(
        requested: str, supported: Sequence[str]
    ) -> UnsupportedProtocolVersion:
        """Return an error for a version that is not in ``supported``."""
        data = {"supported": [*supported], "requested": cut(requested)}
        return UnsupportedProtocolVersion(data=data)

    @staticmethod
    def transport(reason: str, *, data: Any = None) -> TransportError:
        """Return an error of the transport: a sentence, or a name such as "send_failure"."""
        message = reason
        if reason.isidentifier():
            message = reason.replace("_", " ").capitalize()
        return TransportError(message, data=data)

    @staticmethod
    def resource(reason: str = "not_found", *, data: Any = None) -> ResourceNotFound:
        """Return an error for a resource; KeyError for a reason other than "not_found"."""
        if reason != "not_found":
            raise KeyError(reason)
        return ResourceNotFound(data=data)

    @staticmethod
    def execution(message: str, *, data: Any = None) -> ExecutionError:
        """Return an error of the application, with its message for the client program."""
        return ExecutionError(message, data=data)

    @staticmethod
    def wrap(reason: object) -> McpError:
        """Return the error for ``reason``: an McpError itself, a string, or an exception.

        The message of a string or a ToolError is sent. Any other exception is not described,
        because it may contain internals of the server; it becomes the cause.
        """
        if isinstance(reason, McpError):
            return reason
        if isinstance(reason, (str, ToolError)):
            return ExecutionError(str(reason))
        wrapped = InternalError()
        wrapped.__cause__ = reason if isinstance(reason, BaseException) else None
        return wrapped

    def to_json_rpc(self, request_id: str | int | None, revision: _Revision) -> dict[str, Any]:
        """Return the error response, without an id if ``request_id`` is None."""
        id_member = {} if request_id is None else {"id": request_id}
        return {"jsonrpc": "2.0", **id_member, "error": revision.error(self)}

    @classmethod
    def from_json_rpc(cls, response: Json) -> McpError:
        """Return the error of an error response; raise KeyError for any other response."""
        error = response["error"]
        return McpError(error["message"], data=error.get("data"), code=error["code"])


class InternalError(McpError):
    """A failure of the server. The message has no details, because strangers read it."""


class ServerBusy(McpError):
    """The server has too much to do. The same request may succeed soon."""

    reason = "server_busy"
    default_message = "Server busy"
    retry_after = 5


class ServerStopping(ServerBusy):
    """The process ends. Another one may answer the same request at once."""

    default_message = "The server is stopping"
    retry_after = 1


class Cancelled(McpError):
    """The request was cancelled, and the transport requires a response."""

    reason = "cancelled"
    default_message = "Cancelled"


class ExecutionError(McpError):
    """A failure of the application, as a protocol error. In a tool, prefer ToolError."""

    reason = "execution_error"
    default_message = "Execution failed"


class TransportError(McpError):
    """A message could not be transmitted."""

    reason = "transport_error"
    default_message = "Transport error"


class ClientError(McpError):
    """The client answered a request of the server with an error: ``message``, ``data``, ``code``.

    Answers that stay invalid are reported in the same way.

    If a handler does not catch it, a tool reports it to the model, and any other handler fails with
    an internal error.
    """

    @property
    def description(self) -> str:
        """The text that the model reads if a tool does not catch the error."""
        return f"The client refused what it was asked: {self.message}"


class ProtocolError(McpError):
    """A mistake of the client."""


class ParseError(ProtocolError):
    """The bytes are not JSON."""

    reason = "parse_error"
    default_message = "Parse error: the message is not valid JSON"


class InvalidRequest(ProtocolError):
    """The JSON is not a JSON-RPC message that may be sent now."""

    reason = "invalid_request"
    default_message = "Invalid request"

    def __init__(
        self, message: str | None = None, *, request_id: str | int | None = None, **facts: Any
    ) -> None:
        super().__init__(message, **facts)
        self.request_id = request_id


class TooManyRequests(InvalidRequest):
    """The caller has as many requests in flight as it may have."""

    reason = "too_many_requests"
    default_message = "Too many requests are running"
    retry_after = 1


class MethodNotFound(ProtocolError):
    """The revision has no such method, or the server does not declare its capability."""

    reason = "method_not_found"
    default_message = "Method not found"


class InvalidParams(ProtocolError):
    """The parameters are invalid for the method."""

    reason = "invalid_params"
    default_message = "Invalid params"


class UnknownGroup(InvalidParams):
    """The URL of the connection selects a group that is hidden from this caller.

    Over HTTP the status is 400 in every revision: the URL is wrong, not the message.
    """

    reason = "unknown_group"


class ResourceNotFound(ProtocolError):
    """The resource does not exist, or is hidden from this caller.

    If the handler of a template raises it, the next matching template is tried.
    """

    reason = "resource_not_found"
    default_message = "Resource not found"
    names_value = False
    """Whether the message names a value that no resource has."""

    @classmethod
    def at(cls, uri: str, problem: str = "") -> ResourceNotFound:
        """Return the error with ``uri`` in its data, and with the value that cannot be, if any."""
        error = cls(f"{cls.default_message}: {problem}" if problem else None, data={"uri": uri})
        error.names_value = bool(problem)
        return error


class HeaderMismatch(ProtocolError):
    """A header that repeats a part of the body is missing, malformed or different."""

    reason = "header_mismatch"
    default_message = "Header mismatch"


class MissingClientCapability(ProtocolError):
    """The client did not declare a capability that this request requires."""

    reason = "missing_required_client_capability"
    default_message = "The client lacks a required capability"

    @classmethod
    def of(cls, capabilities: Json) -> MissingClientCapability:
        """Return the error that names ``capabilities``, a ClientCapabilities object."""
        names = ", ".join(_paths(capabilities))
        return cls(
            f"This request needs a client with the capability {names}",
            data={"requiredCapabilities": capabilities},
        )


class UnsupportedProtocolVersion(ProtocolError):
    """The revision that the request names is not served."""

    reason = "unsupported_protocol_version"
    default_message = "Unsupported protocol version"


class AuthenticationRequired(ProtocolError):
    """An anonymous caller has to authenticate; over HTTP the status is 401 with a challenge.

    ``scopes`` are all that the operation needs; ``data`` has them, too.
    """

    reason = "authentication_required"
    default_message = "Authentication required"

    def __init__(
        self, message: str | None = None, *, scopes: Iterable[str] = (), data: Any = None
    ) -> None:
        self.scopes = frozenset(scopes)
        if data is None and self.scopes:
            data = {"scopes": sorted(self.scopes)}
        super().__init__(message, data=data)

    @staticmethod
    def for_all(errors: Sequence[AuthenticationRequired]) -> AuthenticationRequired:
        """Return one error for several that one caller received, with the scopes of all."""
        first = errors[0]
        scopes = {scope for error in errors for scope in error.scopes}
        return type(first)(first.message, scopes=scopes)


class InsufficientScope(AuthenticationRequired):
    """The access token lacks scopes; over HTTP the status is 403 with a challenge."""

    reason = "insufficient_scope"
    default_message = "The access token lacks a scope that this needs"


class UrlElicitationRequired(ProtocolError):
    """The user has to visit a URL first; ``data.elicitations`` lists the URLs.

    A client without the capability receives MissingClientCapability.
    """

    reason = "url_elicitation_required"
    default_message = "This request needs the user to visit a page first"

    @classmethod
    def at(
        cls, url: str, message: str, *, elicitation_id: str | None = None
    ) -> UrlElicitationRequired:
        """Return the error that directs the user to ``url``; ``message`` explains why.

        ``elicitation_id`` is the id for ``notifications/elicitation/complete``.
        """
        params = elicitation.url_elicitation_params(url, message, elicitation_id)
        return cls(data={"elicitations": [params]})

    @property
    def elicitations(self) -> list[Json]:
        """The parameters of ``elicitation/create`` for each URL."""
        return list((self.data or {}).get("elicitations", ()))


def _paths(capabilities: Json) -> list[str]:
    """Return the innermost keys as paths: ``{"sampling": {"tools": {}}}`` as sampling.tools."""
    paths: list[str] = []
    for name, inner in capabilities.items():
        inner_paths = _paths(inner) if isinstance(inner, Mapping) else []
        if inner_paths:
            paths += [f"{name}.{path}" for path in inner_paths]
        else:
            paths.append(name)
    return paths


PROTOCOL_ERRORS: Mapping[str, type[McpError]] = {
    error.reason: error
    for error in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        HeaderMismatch,
        MissingClientCapability,
        UnsupportedProtocolVersion,
    )
}
