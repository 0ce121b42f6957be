"""The errors of events. Their codes are provisional, and in use with two sets of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp import McpError, conf

CODES: Mapping[str, Mapping[str, int]] = {
    # What ChatGPT and the conformance suite know: the sketch before the draft.
    "sketch": {
        "event_not_found": -32011,
        "event_forbidden": -32012,
        "event_resource_exhausted": -32013,
        "event_unsupported": -32014,
        "event_callback": -32015,
    },
    # SEP-3415.
    "draft": {
        "event_not_found": -32023,
        "event_forbidden": -32024,
        "event_resource_exhausted": -32025,
        "event_unsupported": -32026,
        "event_callback": -32027,
    },
}
"""The codes by the value of EVENTS_ERROR_CODES, and by the reason of the error."""


def codes() -> Mapping[str, int]:
    return CODES[conf.get().events_error_codes]


class NotFound(McpError):
    """There is no such event, or it is hidden from the caller; or no such subscription."""

    reason = "event_not_found"
    default_message = "Not found"

    @classmethod
    def of(cls, kind: str) -> NotFound:
        """Return the error for an "event" or a "subscription"."""
        return cls(f"There is no such {kind}", data={"kind": kind})


class Forbidden(McpError):
    """The caller may not subscribe, or not any more."""

    reason = "event_forbidden"
    default_message = "Forbidden"


class ResourceExhausted(McpError):
    """The caller has as much as it may have."""

    reason = "event_resource_exhausted"

    @classmethod
    def of(cls, limit: str, most: int) -> ResourceExhausted:
        return cls(f"Too many {limit}: at most {most}", data={"limit": limit, "max": most})


class Unsupported(McpError):
    """The event, or this site, does not support the request."""

    reason = "event_unsupported"

    @classmethod
    def of(cls, feature: str, value: Any) -> Unsupported:
        return cls(f"This is not supported: {feature}", data={"feature": feature, "value": value})


class CallbackEndpointError(McpError):
    """The receiver of a webhook could not be verified; ``data.reason`` says why."""

    reason = "event_callback"

    def __init__(self, reason: str) -> None:
        """``reason`` is a value of ``models.LastError``."""
        super().__init__("The URL did not answer the challenge", data={"reason": reason})


def to_json(error: McpError) -> dict[str, Any]:
    """Return the error object of JSON-RPC, for notifications and webhooks."""
    described: dict[str, Any] = {"code": codes()[error.reason], "message": error.message}
    return described if error.data is None else {**described, "data": error.data}
