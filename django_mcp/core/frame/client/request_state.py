"""The state that travels through a stateless client: encrypted when sent, verified on return.

It is short-lived, and bound to the server, the caller and the request (MRTR).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.core.protocol.errors import InvalidParams, Json

if TYPE_CHECKING:
    from django_mcp.core.frame.client.multi_round_trip import InputRequired
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

LIFETIME = 10 * 60.0
"""Seconds in which a client may retry a call with the requested input: a user may have to read the
request and think about it."""


class RetryInput(NamedTuple):
    """The input of a repeated call: responses, and values assigned before the input request."""

    responses: Mapping[str, Json] = {}
    assigns: Json = {}
    trace: str | None = None
    """The ``traceparent`` of the call that requested the input."""


FIRST = RetryInput()

EARLIER_TRACE = "earlier_trace"
"""The private value of the Frame that has ``RetryInput.trace``."""


def read(
    server: Server, revision: Revision, principal: str, method: str, params: Json
) -> RetryInput:
    """Return the input of the call; raises InvalidParams for an invalid state.

    Only responses to the input requests that the state names are read: a client cannot confirm
    what it was not asked. All others are ignored (MRTR-12), and the input is requested again,
    unless the server accepts responses without a state.
    """
    is_retry = "inputResponses" in params or "requestState" in params
    if not is_retry or method not in revision.input_request_methods:
        return FIRST
    responses = params.get("inputResponses", {})
    if type(responses) is not dict or not all(type(item) is dict for item in responses.values()):
        raise InvalidParams("params.inputResponses must be an object of result objects")
    if "requestState" not in params:
        return FIRST if server.requires_request_state else RetryInput(responses)
    signed = params["requestState"]
    text = None
    if isinstance(signed, str):
        target = _target(method, params)
        text = server.unsign("request_state", principal, signed, *target, max_age=LIFETIME)
    if text is None:
        raise InvalidParams(
            "params.requestState is not one that this request was given, or too old"
        )
    state = json.loads(text)
    requested = {name: responses[name] for name in state["requested"] if name in responses}
    return RetryInput({**state["given"], **requested}, state["assigns"], state.get("trace"))


def result(frame: Frame, required: InputRequired) -> dict[str, Any]:
    server = frame.server
    principal = frame.principal.key
    request = frame.message
    content = {**required.state, "requested": [*required.requests]}
    if frame.trace:
        content["trace"] = frame.trace["traceparent"]
    state = json.dumps(content)
    target = _target(request.method, request.params)
    return {
        "resultType": "input_required",
        "inputRequests": dict(required.requests),
        "requestState": server.sign("request_state", principal, state, *target),
    }


def of(frame: Frame) -> str | None:
    """The state that the call on ``frame`` brings, already verified, or None."""
    is_read = frame.message.method in frame.revision.input_request_methods
    state: str | None = frame.message.params.get("requestState") if is_read else None
    return state


BOUND = ("name", "uri", "arguments")
"""The parameters of the protocol's methods that a state is bound to."""
UNBOUND = frozenset({*BOUND, "_meta", "inputResponses", "requestState"})


def _target(method: str, params: Json) -> tuple[Any, ...]:
    """What a state is bound to: the method, and all that the call asks for."""
    target = (method, *map(params.get, BOUND))
    # The parameters of an extension's method have names of their own.
    others = {name: params[name] for name in params.keys() - UNBOUND}
    return (*target, others) if others else target
