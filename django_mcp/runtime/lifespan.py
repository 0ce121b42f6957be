"""Start a server before its first message in a process, and stop it when the process ends.

Some ASGI servers send lifespan messages (see ``routing``), which also the application that ours
wraps receives (``WrappedLifespan``); daphne and stdio do not. So a server
is started at the latest for its first message, and stopped at the latest when Python exits.
Python cannot start threads by then, so that an async ``stop`` cannot use the database.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django_mcp.core.components.signature import is_async
from django_mcp.core.concurrency.loops import result_of
from django_mcp.core.server.extensions import INSTALLED, Extension
from django_mcp.core.server.server import Server
from django_mcp.runtime import background, housekeeping, pools, request_scope

logger = logging.getLogger("django_mcp")

Message = dict[str, Any]

STOP_FAILED = "The server {!r} could not be stopped properly"
INTERRUPTED = "The event loop of this process ended while {!r} started"


class _Start(NamedTuple):
    """The start of a server or an extension, which requests on any event loop wait for."""

    done: Future[None]
    task: asyncio.Task[None]
    """Of its own: the request that comes first may be cancelled, and others wait."""


class Lifespan:
    """The servers of this process that start or run, and the extensions that have started.

    | a server is | requests | who moves it there |
    |---|---|---|
    | stopped | start it | the process begins; ``stop``; a start that raises |
    | starting | wait for its one task | the first ``start`` |
    | running | are served | the task |

    An extension starts once in a process, before its first server; servers that start at the same
    time wait for its one task as well.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._starts: dict[Server | Extension, _Start] = {}
        self._extensions: set[Extension] = set()
        self._running: WeakKeyDictionary[Server, None] = WeakKeyDictionary()
        """The running servers, in the order of their start."""

    async def start(self, server: Server) -> None:
        """Call the server's ``start`` unless it was called; raises its error.

        It may be called again then.
        """
        if not server.is_running:
            await self._in_one_task(server, partial(self._start, server))

    async def _in_one_task(
        self, started: Server | Extension, start_it: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Wait for the task that starts a server or an extension; raises its error."""
        with self._guard:
            start = self._starts.get(started)
            if start is None:
                task = asyncio.get_running_loop().create_task(
                    request_scope.run(start_it), context=pools.context_of_nobody()
                )
                start = self._starts[started] = _Start(Future(), task)
                task.add_done_callback(partial(self._on_done, started))
        await asyncio.shield(asyncio.wrap_future(start.done))

    async def _start(self, server: Server) -> None:
        if not server.is_running:
            for extension in INSTALLED.all:
                if extension.start is not None and extension not in self._extensions:
                    await self._in_one_task(extension, partial(self._start_extension, extension))
            if server.has_hook("start"):
                await _call(server.start)
            server.is_running = True
            self._running[server] = None
            housekeeping.start()

    async def _start_extension(self, extension: Extension) -> None:
        if extension.start is not None and extension not in self._extensions:
            await extension.start()
            self._extensions.add(extension)

    def _on_done(self, started: Server | Extension, task: asyncio.Task[None]) -> None:
        done = self._starts.pop(started).done
        if task.cancelled():
            done.set_exception(RuntimeError(INTERRUPTED.format(started.name)))
        elif error := task.exception():
            done.set_exception(error)
        else:
            done.set_result(None)

    async def stop(self, server: Server) -> None:
        """Call the server's ``stop`` if it is running; exceptions are reported, not raised."""
        if not server.is_running:
            return
        server.is_running = False
        self._running.pop(server, None)
        try:
            if server.has_hook("stop"):
                await request_scope.run(_call, server.stop)
        except Exception as error:
            server.report(STOP_FAILED.format(server.name), error)

    async def stop_all(self) -> None:
        """Stop all servers when no request is served any more, and write queued data.

        A process may end by the signal itself, without ``atexit``.
        """
        for server in reversed([*self._running]):
            await self.stop(server)
        await background.finish()

    def stop_at_exit(self) -> None:
        """Stop running servers on this thread, since Python cannot start others any more."""
        while self._running:
            server, _ = self._running.popitem()
            server.is_running = False
            try:
                if isawaitable(returned := server.stop()):
                    asyncio.run(result_of(returned))
            except Exception as error:
                server.report(STOP_FAILED.format(server.name), error)


async def _call(hook: Callable[[], Any]) -> None:
    if is_async(hook):
        await hook()
    else:
        await pools.run_hook(hook)


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


_lifespan = Lifespan()
start = _lifespan.start
stop = _lifespan.stop
stop_all = _lifespan.stop_all

atexit.register(_lifespan.stop_at_exit)
