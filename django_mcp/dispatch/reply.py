"""The reply to one request: what every transport sends, and what every step may answer instead."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.protocol import jsonrpc, preencoded
from django_mcp.protocol.errors import ClientError, InternalError, McpError
from django_mcp.protocol.revisions import NEWEST

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame

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


class EncodedMessage(dict[str, Any]):
    """A response with its JSON. Nothing may change it: the JSON is what is sent."""

    json: bytes


def encoded(reply: Reply) -> tuple[Reply, int]:
    """The reply, which is encoded now instead of when it is sent, and its bytes."""
    message = EncodedMessage(reply.message)
    message.json = encode_reply(reply.message)
    return Reply(message, reply.frame, reply.error), len(message.json)


def encode_reply(message: dict[str, Any]) -> bytes:
    """The encoded response; an internal error for one that is not serializable."""
    if type(message) is EncodedMessage:
        return message.json
    is_encoded = preencoded.has_encoded(message.get("result") or {})
    try:
        return preencoded.encode(message) if is_encoded else jsonrpc.encode(message)
    except ValueError:
        logger.exception("A response is not serializable as JSON")
        return jsonrpc.encode(InternalError().to_json_rpc(message["id"], NEWEST))
