"""Starting a server before its first message in a process, and stopping it when the process ends.

ASGI servers tell of both, those which know lifespan messages (see ``routing``); daphne and
stdio do not. So a server is started when it is first needed, unless it was before, and stopped
at the latest when Python exits; then, Python has no more threads to give, so that an async
``stop`` cannot use the database.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp.components.signature import is_async
from django_mcp.runtime import threads
from django_mcp.server.server import Server


async def start(server: Server) -> None:
    """Call the server's ``start`` unless it was called; raises what that raises.

    After a failure the next message tries again.
    """
    if server.is_running:
        return
    with _guard:
        theirs = _starting.get(server)
        mine: Future[None] = Future()
        _starting.setdefault(server, mine)
    if theirs is not None:
        await asyncio.wrap_future(theirs)
        return
    try:
        await _start(server)
        mine.set_result(None)
    except BaseException as error:
        mine.set_exception(error)
        # Nobody may have waited, and then nobody would have looked at it.
        mine.exception()
        raise
    finally:
        _starting.pop(server)


async def stop(server: Server) -> None:
    """Call the ``stop`` of a server that runs here; a failure is reported and not raised."""
    if not server.is_running:
        return
    server.is_running = False
    _running.pop(server, None)
    try:
        if server.has_hook("stop"):
            await _call(server.stop)
    except Exception as error:
        server.report(f"The server {server.name!r} could not be stopped properly", error)


async def stop_all() -> None:
    """Stop every server that runs here, the last one first."""
    for server in reversed([*_running]):
        await stop(server)


async def _start(server: Server) -> None:
    if server.is_running:
        return
    if server.has_hook("start"):
        await _call(server.start)
    server.is_running = True
    _running[server] = None


async def _call(hook: Callable[[], Any]) -> None:
    if is_async(hook):
        await hook()
    else:
        await threads.run(hook)


def _stop_at_exit() -> None:
    """Stop what nobody has stopped. There are no threads any more, so it happens on this one."""
    while _running:
        server, _ = _running.popitem()
        server.is_running = False
        try:
            returned = server.stop()
            if isawaitable(returned):
                asyncio.run(_wait_for(returned))
        except Exception as error:
            server.report(f"The server {server.name!r} could not be stopped properly", error)


async def _wait_for(awaitable: Awaitable[Any]) -> None:
    await awaitable


_running: WeakKeyDictionary[Server, None] = WeakKeyDictionary()
_starting: dict[Server, Future[None]] = {}
_guard = threading.Lock()

atexit.register(_stop_at_exit)
