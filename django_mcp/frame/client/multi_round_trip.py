"""Asking by rounds: the answer says what is missing, and the client calls again with it.

Where a revision has no requests from the server, a handler's question is looked up in the
call. If the answer is not there yet, the attempt ends: the client is told what is missing,
asks its user, and calls again. The handler then **runs again from the top**, so what it does
before its last question must be harmless to do twice.

What has to survive between the rounds travels through the client: signed, short-lived, and
bound to the caller and to the request (specification, basic/patterns/mrtr).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django_mcp.frame.client.base import Client
from django_mcp.frame.client.input_requests import InputRequest, InvalidClientResponse
from django_mcp.protocol.errors import InvalidParams, Json

if TYPE_CHECKING:
    from django_mcp.server.server import Server

MISSING: Any = object()
NOTHING: Mapping[str, Json] = {}


class InputRequired(BaseException):
    """Ends an attempt: the client must be asked first.

    Not an Exception, so that a handler which catches those does not swallow it.
    """

    def __init__(self, asked: Mapping[str, Json], state: Json) -> None:
        self.asked = asked
        self.state = state
        super().__init__(f"Input is required: {', '.join(asked)}")


class MultiRoundTripClient(Client):
    """A client which is asked by ending the attempt, and which calls again with the answers.

    ``given`` are the results which it has sent so far, in this call and, by way of the signed
    state, in earlier ones.
    """

    is_multi_round_trip = True

    __slots__ = ("_assigned", "_asked", "_counts", "_given", "_used")

    def __init__(self, *facts: Any, given: Mapping[str, Json] = NOTHING) -> None:
        super().__init__(*facts)
        self._given = given
        self._assigned: Json = {}
        # Shared by the copies of this client which several Frames of one call hold.
        self._asked: dict[str, Json] = {}
        self._used: dict[str, Json] = {}
        self._counts: dict[str, int] = {}

    def remembering(self, assigned: Json) -> Client:
        """A copy which carries ``assigned`` through the next round."""
        remembering = copy(self)
        remembering._assigned = {**self._assigned, **assigned}
        return remembering

    def _ask(self, asked: Mapping[str, InputRequest], timeout: float | None) -> dict[str, Any]:
        """Look the answers up; where one is missing, end this attempt."""
        for question in asked.values():
            self._require(question)
        return self._look_up(asked)

    async def _answers(self, asked: Mapping[str, InputRequest], timeout: float) -> dict[str, Any]:
        for name, question in asked.items():
            if self._read(name, question) is MISSING:
                self._note(name, question)
        if self._asked:
            # Questions which are asked concurrently are asked of the client together.
            await asyncio.sleep(0)
        return self._look_up(asked)

    def _look_up(self, asked: Mapping[str, InputRequest]) -> dict[str, Any]:
        answers = {name: self._read(name, question) for name, question in asked.items()}
        for name, answer in answers.items():
            if answer is MISSING:
                self._note(name, asked[name])
        if self._asked:
            raise self._required()
        return answers

    def sent_away(self, pages: Sequence[Json]) -> InputRequired:
        """What ends an attempt whose user has to visit ``pages`` before the next one."""
        for number, page in enumerate(pages, 1):
            asked = self._revision.input_request("elicitation/create", page)
            self._asked[f"page-{number}"] = {"method": "elicitation/create", "params": asked}
        return self._required()

    def _required(self) -> InputRequired:
        return InputRequired(self._asked, {"given": self._used, "assigns": self._assigned})

    def _note(self, name: str, question: InputRequest) -> None:
        self._asked[name] = {"method": question.method, "params": self._params(question)}

    def _read(self, name: str, question: InputRequest) -> Any:
        """The answer under ``name``, or MISSING: one that does not fit counts as none."""
        if name not in self._given:
            return MISSING
        try:
            answer = question.read(self._given[name])
        except InvalidClientResponse:
            return MISSING
        self._used[name] = self._given[name]
        return answer

    def _key(self, question: InputRequest) -> str:
        """A name which is the same when the handler runs again, and differs by question."""
        text = json.dumps(self._params(question), sort_keys=True, default=str)
        digest = sha256(f"{question.method} {text}".encode()).hexdigest()[:12]
        count = self._counts[digest] = self._counts.get(digest, 0) + 1
        return f"{question.method.partition('/')[0]}-{digest}-{count}"


@dataclass(frozen=True, slots=True)
class RetryInput:
    """What the client brought back: answers, and what the Frame remembered before the question."""

    given: Mapping[str, Json] = field(default_factory=dict)
    assigns: Json = field(default_factory=dict)


FIRST = RetryInput()


def read(server: Server, principal: str, method: str, params: Json) -> RetryInput:
    """What the call brings from earlier rounds; raises InvalidParams for what is not ours.

    Answers may come without a state, and keys that nobody asked for are left alone.
    """
    if "inputResponses" not in params and "requestState" not in params:
        return FIRST
    responses = params.get("inputResponses", {})
    if type(responses) is not dict or not all(type(item) is dict for item in responses.values()):
        raise InvalidParams("params.inputResponses must be an object of result objects")
    state = _open(server, principal, method, params)
    return RetryInput({**state.get("given", {}), **responses}, state.get("assigns", {}))


def _open(server: Server, principal: str, method: str, params: Json) -> Json:
    sealed = params.get("requestState")
    if sealed is None and "requestState" not in params:
        return {}
    assert server.signer is not None
    purpose = _purpose(principal, method, params)
    lifetime = server.limits.request_state_lifetime
    opened = (
        server.signer.unsign(purpose, sealed, max_age=lifetime) if isinstance(sealed, str) else None
    )
    if opened is None:
        raise InvalidParams(
            "params.requestState is not one that this request was given, or too old"
        )
    state: Json = json.loads(opened)
    return state


def result(
    server: Server, principal: str, method: str, params: Json, required: InputRequired
) -> dict[str, Any]:
    """The result which says what is required, and carries what must not be forgotten."""
    assert server.signer is not None
    state = server.signer.sign(_purpose(principal, method, params), json.dumps(required.state))
    return {
        "resultType": "input_required",
        "inputRequests": dict(required.asked),
        "requestState": state,
    }


def _purpose(principal: str, method: str, params: Json) -> str:
    """What a state is bound to: who calls what, with which arguments."""
    defining = {name: params.get(name) for name in ("name", "uri", "arguments")}
    text = json.dumps([principal, method, defining], sort_keys=True)
    return f"request_state:{sha256(text.encode()).hexdigest()}"
