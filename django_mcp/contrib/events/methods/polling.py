"""The methods ``events/list`` and ``events/poll`` (SEP-3415), and functions for all methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from django.db import connections, transaction
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from django_mcp import Frame
from django_mcp.contrib.events import interest, occurrences, recipients
from django_mcp.contrib.events.declaration import KIND, EventComponent
from django_mcp.core.protocol import preencoded
from django_mcp.core.protocol.limits import MAX_CURSOR
from django_mcp.core.server.server import server_of
from django_mcp.extensions import list_components

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])

MAX_EVENTS = 100
"""Events of one response to a poll."""
POLL_INTERVAL = 5.0
"""Seconds until the next poll, as clients are told."""


class Params(BaseModel):
    """Parameters of a method; further ones are ignored, as in other methods of the protocol."""

    # Their validators are made for a server with events, not for every process.
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", defer_build=True)


class ListParams(Params):
    cursor: str | None = None


class NamedParams(Params):
    name: str = Field(max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)


class PositionParams(NamedParams):
    cursor: str | None = Field(None, max_length=MAX_CURSOR)
    max_age_ms: int | None = Field(None, ge=0)

    @property
    def max_age(self) -> timedelta | None:
        """The longest replay; it is ignored without a cursor."""
        if self.max_age_ms is None or self.cursor is None:
            return None
        return timedelta(milliseconds=min(self.max_age_ms, 10**12))


class PollParams(PositionParams):
    max_events: int | None = Field(None, ge=1)


class StreamParams(PositionParams):
    pass


def outside_transactions(method: M) -> M:
    """Leave a method out of ATOMIC_REQUESTS, on all databases.

    Others have to see an interest while the method waits for them. With DJANGO_MIDDLEWARE, its
    queries are on the thread that would have the transaction, which would keep the counter locked.
    """
    for alias in connections:
        method = transaction.non_atomic_requests(using=alias)(method)
    return method


async def in_thread(
    frame: Frame, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a function with queries on a thread."""
    running: Awaitable[T] = frame.exchange.run_hook(lambda: function(*args, **kwargs))
    return await running


async def list_events(params: ListParams, frame: Frame) -> Any:
    """``events/list``: a page of the events that the caller may have.

    Where the transport has no streams, ``push`` is not listed, nor are events without another way.
    """
    result, after_list = await list_components(frame, KIND, "events")
    if frame.exchange.may_listen:
        return result, after_list
    page = preencoded.plain(result)
    events = []
    for descriptor in page["events"]:
        if ways := [name for name in descriptor["delivery"] if name != "push"]:
            events.append({**descriptor, "delivery": ways})
    return {**page, "events": events}, after_list


@outside_transactions
async def poll(params: PollParams, frame: Frame) -> dict[str, Any]:
    """``events/poll``: the occurrences since a cursor."""
    component = await recipients.find_event(frame, params.name, "poll")
    arguments = component.event.read_arguments(params.arguments)
    start = position_of(frame, params)
    await begin(frame, component)
    if start is None:
        position = await in_thread(frame, occurrences.last_position)
        return _polled(frame, params.name, position, [], is_truncated=False, has_more=False)
    limit = min(params.max_events or MAX_EVENTS, MAX_EVENTS)

    def read() -> tuple[occurrences.Batch, list[Any]]:
        batch = after(frame, component, start, limit, params.max_age)
        described = recipients.describe(component, arguments, frame, batch.occurrences)
        return batch, described

    batch, described = await in_thread(frame, read)
    return _polled(
        frame,
        params.name,
        batch.position,
        [each for each in described if each is not None],
        is_truncated=batch.is_truncated,
        has_more=batch.has_more,
    )


def _polled(
    frame: Frame,
    name: str,
    position: int,
    events: list[Any],
    *,
    is_truncated: bool,
    has_more: bool,
) -> dict[str, Any]:
    return {
        "events": events,
        "cursor": occurrences.cursor_of_frame(frame, name, position),
        "truncated": is_truncated,
        "hasMore": has_more,
        "nextPollMs": 0 if has_more else round(POLL_INTERVAL * 1000),
    }


def position_of(frame: Frame, params: PositionParams) -> int | None:
    """Return the position of the cursor; None: from now on. Raises InvalidParams."""
    if params.cursor is None:
        return None
    return occurrences.read_cursor(frame, params.name, params.cursor)


async def begin(frame: Frame, component: EventComponent) -> None:
    """Let all processes write occurrences of a type from now on; see ``interest``."""
    server = server_of(frame)
    if await in_thread(frame, interest.begin, server.name, component.name):
        await asyncio.sleep(interest.FRESH)


def after(
    frame: Frame,
    component: EventComponent,
    position: int,
    limit: int,
    max_age: timedelta | None = None,
) -> occurrences.Batch:
    """Return the occurrences after a position, for a caller without a row."""
    server = frame.server.name
    batch = occurrences.after(server, component.name, position, limit, max_age=max_age)
    if interest.misses(server, component.name, position):
        batch = batch._replace(is_truncated=True)
    return batch
