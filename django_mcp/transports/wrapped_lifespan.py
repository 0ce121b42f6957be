"""The lifespan of an ASGI application that another one wraps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger("django_mcp")

Message = dict[str, Any]


class WrappedLifespan:
    """Passes lifespan messages on to an application, which may not support them."""

    def __init__(self, application: Callable[..., Awaitable[None]], scope: Any) -> None:
        self._application = application
        self._scope = scope
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._answer: asyncio.Future[Message | None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_supported = False

    async def send(self, message: Message) -> Message | None:
        """The answer of the application; None without support, or after the application ended."""
        if self._task is not None and self._task.done():
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self._incoming.put_nowait(message)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return await self._answer

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._incoming.get, self._receive_answer)
        except Exception:
            # An application without support raises at once, as Django's does.
            if self._is_supported:
                logger.exception("The lifespan of the wrapped application failed")
        finally:
            self._settle(None)

    async def _receive_answer(self, message: Message) -> None:
        self._is_supported = True
        self._settle(message)

    def _settle(self, answer: Message | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
