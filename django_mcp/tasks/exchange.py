"""The exchanges of tool calls that run as tasks: threads, and no stream to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from django_mcp.concurrency.fair_slots import Slot
from django_mcp.frame.client.task import HandOver
from django_mcp.frame.exchange import Exchange
from django_mcp.protocol.errors import Json
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.runtime import pools, request_scope, rollback
from django_mcp.transports.exchange import LoopExchange

T = TypeVar("T")


class Messages(Protocol):
    """Where the notifications of a task are stored."""

    def add(self, message: Json, /) -> None: ...


class TaskExchange(LoopExchange):
    """The exchange of a task: notifications are stored, or dropped where the form has none."""

    may_start_tasks = False
    is_task_run = True

    def __init__(self, slot: Slot, messages: Messages | None = None) -> None:
        super().__init__()
        self._slot = slot
        self._messages = messages

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        request_scope.begin_handler()
        return pools.run_task(self._slot.call, function, *args)

    def write(self, message: dict[str, Any], /) -> None:
        if self._messages is not None:
            self._messages.add(message)

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        raise ConnectionError("A task has no connection to its client")


class HandOverExchange(TaskExchange):
    """The exchange of a call until it is continued as a task, and from then on."""

    is_task_run = False

    def __init__(self, outer: Exchange, state: HandOver, slot: Slot) -> None:
        super().__init__(slot)
        self._outer = outer
        self._state = state

    @property
    def request_headers(self) -> RequestHeaders | None:
        """Those of the call."""
        return self._outer.request_headers

    async def run(self, function: Callable[..., T], /, *args: Any) -> T:
        """Wait for a slot, and run ``function`` on a thread; a call that waits becomes a task."""
        async with self._slot:
            return await super().run(function, *args)

    def run_handler(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:  # type: ignore[override]
        """``run``; an input request of the call rolls back what ``function`` wrote."""
        return self.run(rollback.call, function, *args)

    def write(self, message: dict[str, Any], /) -> None:
        if self._state.run is None:
            self._outer.write(message)

    async def flush(self) -> None:
        if self._state.run is None:
            await self._outer.flush()
