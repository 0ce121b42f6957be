"""Input requests in the stateless revision: the client repeats the call with the responses.

An input request is looked up among the responses that the client sent with the call. If it is
missing, ``InputRequired`` ends the call with a result that lists the input requests. The client
calls again with the responses, and the handler **runs again from the top**.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar

from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.input_requests import InputRequests, Reading, Responses
from django_mcp.core.frame.exchange import run_in_place
from django_mcp.core.protocol.errors import Json

T = TypeVar("T")


class InputRequired(BaseException):
    """Ends a call that needs input first. Not an Exception, which a handler might catch.

    ``state`` has the responses that the handler has read (``given``) and the assigns of the call.
    The client returns it with the next call.
    """

    def __init__(self, requests: Mapping[str, Json], state: Json) -> None:
        self.requests = requests
        self.state = state
        super().__init__(f"Input is required: {', '.join(requests)}")

    @classmethod
    def merged(cls, raised: Sequence[InputRequired]) -> InputRequired:
        """Return one which requests all that several tasks of a call requested."""
        requests: dict[str, Json] = {}
        given: dict[str, Json] = {}
        assigns: Json = {}
        for required in raised:
            requests |= required.requests
            given |= required.state.get("given", {})
            assigns |= required.state.get("assigns", {})
        return cls(requests, {"given": given, "assigns": assigns})


def unwrapped(error: BaseException) -> BaseException:
    """Return the exception that stands for an exception group, or ``error`` itself.

    Groups come from ``asyncio.TaskGroup`` and its like. Cancelled siblings do not count.

    ======================================== ===================================
    the other exceptions in the group        returned is
    ======================================== ===================================
    InputRequired only                       one that requests all of the input
    one exception, perhaps with InputRequired that exception
    none                                     the first cancellation
    several                                  the group
    ======================================== ===================================
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [*_leaves(error)]
    failures = [leaf for leaf in leaves if not isinstance(leaf, asyncio.CancelledError)]
    required = [leaf for leaf in failures if isinstance(leaf, InputRequired)]
    if required and len(required) == len(failures):
        return InputRequired.merged(required)
    others = [leaf for leaf in failures if not isinstance(leaf, InputRequired)]
    if len(others) == 1:
        return others[0]
    if not failures:
        return leaves[0]  # All were cancelled.
    return error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class Collected:
    """The input requests of a call so far."""

    def __init__(self) -> None:
        self.missing: dict[str, Json] = {}
        """The requests without a response, by name."""
        self.used: dict[str, Json] = {}
        """The responses that the handler has read, by name."""
        self.counts: dict[str, int] = {}
        """How many equal requests there were, by their hash."""
        self.in_threads: set[asyncio.Future[Any]] = set()
        """Input requests that are made, or whose responses are read, in a thread."""


@dataclass(eq=False, repr=False)
class MultiRoundTripClient(Client):
    """A client that calls again with ``responses`` of this call and of earlier ones."""

    is_multi_round_trip = True

    responses: Mapping[str, Json] | None = None
    _assigned: Json | None = field(default=None, init=False)

    @property
    def _collected(self) -> Collected:
        """Shared by the copies of this client which several Frames of one call hold."""
        exchange = self._exchange
        if exchange.collected is None:
            exchange.collected = Collected()
        collected: Collected = exchange.collected
        return collected

    def with_assigns(self, assigned: Json) -> Client:
        """Return a copy which sends ``assigned`` along in the state."""
        changed = copy(self)
        changed._assigned = {**(self._assigned or {}), **assigned}
        return changed

    def earlier_response(self, prefix: str) -> tuple[str, Json] | None:
        responses = self.responses or {}
        matching = (pair for pair in responses.items() if pair[0].startswith(prefix))
        return next(matching, None)

    def require_urls(self, elicitations: Sequence[Json]) -> InputRequired:
        """Return the InputRequired that requests visits of these pages."""
        for number, elicitation in enumerate(elicitations, 1):
            params = self._revision.input_request("elicitation/create", elicitation)
            page = {"method": "elicitation/create", "params": params}
            self._collected.missing[f"page-{number}"] = page
        return self._required()

    _wait = staticmethod(run_in_place)

    def _given(self, requests: InputRequests) -> Responses:
        responses = self.responses or {}
        return {name: responses[name] for name in requests if name in responses}

    def _note(self, reading: Reading) -> None:
        self._collected.used |= self._given(reading.answers)
        if self._collected.missing and not reading.missing:
            # Another request has no response; the handler may have caught its exception.
            raise self._required()

    async def _request(self, requests: InputRequests, timeout: float | None) -> Responses:
        for name, request in requests.items():
            params = self._params(request)
            self._collected.missing[name] = {"method": request.method, "params": params}
        raise self._required()

    async def _aall(self, requests: InputRequests, timeout: float | None = None) -> dict[str, Any]:
        try:
            return await super()._aall(requests, timeout)
        except InputRequired:
            await self._until_others_are_collected()
            raise

    async def _until_others_are_collected(self) -> None:
        """Let concurrent input requests of the handler join: they are sent together."""
        await asyncio.sleep(0)
        in_threads = self._collected.in_threads
        while in_threads:
            await asyncio.wait(in_threads)
            await asyncio.sleep(0)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        in_threads = self._collected.in_threads
        running = asyncio.ensure_future(super()._in_thread(function, *args))
        in_threads.add(running)
        running.add_done_callback(in_threads.discard)
        return await running

    def _required(self) -> InputRequired:
        collected = self._collected
        assigned = self._assigned or {}
        return InputRequired(collected.missing, {"given": collected.used, "assigns": assigned})

    def _key(self, request: input_requests.InputRequest[Any]) -> str:
        """Return a name which differs by request and is the same when the handler runs again."""
        text = json.dumps(self._params(request), sort_keys=True, default=str)
        digest = sha256(f"{request.method} {text}".encode()).hexdigest()[:12]
        counts = self._collected.counts
        count = counts.get(digest, 0) + 1
        counts[digest] = count
        namespace = request.method.partition("/")[0]
        return f"{namespace}-{digest}-{count}"
