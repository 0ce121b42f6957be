"""The state that travels through a stateless client: signed when sent, verified on return.

It is signed, short-lived, and bound to the caller and to the request (MRTR).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mcp.protocol.errors import InvalidParams, Json

if TYPE_CHECKING:
    from django_mcp.frame.client.multi_round_trip import InputRequired
    from django_mcp.server.server import Server


class RetryInput(NamedTuple):
    """What a repeated call brings: responses, and what was assigned before the input request."""

    responses: Mapping[str, Json] = {}
    assigns: Json = {}


FIRST = RetryInput()


def read(server: Server, principal: str, method: str, params: Json) -> RetryInput:
    """Return what the call brings; raises InvalidParams for an invalid state.

    Responses may come without a state, and responses to unknown input requests are ignored.
    """
    if "inputResponses" not in params and "requestState" not in params:
        return FIRST
    responses = params.get("inputResponses", {})
    if type(responses) is not dict or not all(type(item) is dict for item in responses.values()):
        raise InvalidParams("params.inputResponses must be an object of result objects")
    if "requestState" not in params:
        return RetryInput(responses)
    signed, purpose = params["requestState"], _purpose(principal, method, params)
    age = server.options.request_state_lifetime
    text = server.signer.unsign(purpose, signed, max_age=age) if isinstance(signed, str) else None
    if text is None:
        raise InvalidParams(
            "params.requestState is not one that this request was given, or too old"
        )
    state = json.loads(text)
    return RetryInput({**state.get("given", {}), **responses}, state.get("assigns", {}))


def result(
    server: Server, principal: str, method: str, params: Json, required: InputRequired
) -> dict[str, Any]:
    purpose = _purpose(principal, method, params)
    return {
        "resultType": "input_required",
        "inputRequests": dict(required.requests),
        "requestState": server.signer.sign(purpose, json.dumps(required.state)),
    }


def _purpose(principal: str, method: str, params: Json) -> str:
    defining = {name: params.get(name) for name in ("name", "uri", "arguments")}
    text = json.dumps([principal, method, defining], sort_keys=True)
    return f"request_state:{sha256(text.encode()).hexdigest()}"
