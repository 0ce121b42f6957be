"""The reply to one request: what every transport sends, and what every step may answer instead."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.protocol import jsonrpc, preencoded
from django_mcp.protocol.errors import ClientError, InternalError, McpError
from django_mcp.protocol.limits import quoted
from django_mcp.protocol.revisions import NEWEST

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame, RequestInfo

logger = logging.getLogger("django_mcp")


class Reply(NamedTuple):
    """The response to one request, and the Frame as its handler left it."""

    message: dict[str, Any]
    frame: Frame
    error: McpError | None = None


def error_reply(frame: Frame, error: McpError) -> Reply:
    """The reply with ``error``; an error that the client returned becomes an internal one."""
    if isinstance(error, ClientError):
        error = InternalError(error.description)
    return Reply(jsonrpc.error(frame.message.id, frame.revision.error(error)), frame, error)


NO_CHARACTER = (
    "A string in it has a lone surrogate, which is no character: os.fsdecode() makes such strings "
    'of file names that are not UTF-8. Replace it where the string is read: text.encode("utf-8", '
    '"surrogateescape").decode("utf-8", "replace").'
)
NOT_JSON = "Return values that JSON has: strings, numbers, booleans, None, lists and dicts."


def described(request: RequestInfo) -> str:
    """The method of a request, and what it names, for the log."""
    params = request.params or {}
    name = params.get("name", params.get("uri"))
    return f"{request.method} of {quoted(name)}" if isinstance(name, str) else request.method


class EncodedMessage(dict[str, Any]):
    """A response with its JSON. Nothing may change it: the JSON is what is sent."""

    json: bytes


def encoded(reply: Reply) -> tuple[Reply, int]:
    """The reply, which is encoded now instead of when it is sent, and its bytes."""
    message = EncodedMessage(reply.message)
    message.json = encode_reply(reply.message, reply.frame.message)
    return Reply(message, reply.frame, reply.error), len(message.json)


def encode_reply(message: dict[str, Any], request: RequestInfo | None = None) -> bytes:
    """The encoded response; an internal error for one that is not serializable.

    ``request`` is named in the log then.
    """
    if type(message) is EncodedMessage:
        return message.json
    is_encoded = preencoded.has_encoded(message.get("result") or {})
    try:
        return preencoded.encode(message) if is_encoded else jsonrpc.encode(message)
    except ValueError as error:
        remedy = NO_CHARACTER if "surrogate" in str(error) else NOT_JSON
        asked = "a request" if request is None else described(request)
        logger.exception("The response to %s cannot be sent as JSON. %s", asked, remedy)
        return jsonrpc.encode(InternalError().to_json_rpc(message["id"], NEWEST))
