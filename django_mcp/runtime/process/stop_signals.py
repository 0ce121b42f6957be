"""SIGTERM and SIGINT, before the ASGI server acts on them.

ASGI servers send ``lifespan.shutdown`` after every response has ended. A stream ends only when its
client disconnects, and a call may take as long as HANDLER_TIMEOUT: so what serves them has to know
of the signal itself. The server's own handler is called after this one, or a moment later.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import running_loop
from django_mcp.runtime.process import asgi_servers
from django_mcp.runtime.process.asgi_servers import AsgiServer

NUMBERS = (signal.SIGINT, signal.SIGTERM)

Begin = Callable[[AsgiServer | None], "asyncio.Future[None]"]
"""Begins to stop. The server, if there is one, receives the signal when the future is done."""
Handler = Callable[[int, FrameType | None], Any]


def watch(begin: Begin) -> None:
    """Call ``begin`` in this event loop when the process receives a signal to stop.

    It works in the main thread, and where something else handles the signal: without a handler it
    ends the process, and nothing could be finished.
    """
    loops.here(_Watcher).begin = begin
    if threading.current_thread() is threading.main_thread():
        handle_signals()


class _Watcher:
    """The function of an event loop for a signal to stop."""

    begin: Begin


class StopSignals:
    """The signals to stop of this process.

    | a signal is | it tells the event loops, and then | who moves it there |
    |---|---|---|
    | not handled | (it calls another handler alone) | the process begins |
    | handled | calls the former handler; that of an ASGI server later | ``handle`` |
    | delayed | calls the former handler | the first signal of a server that waits |

    A handler that was set after ours may call ours, as it calls any former one. So ``handle`` never
    changes what one of ours calls: it sets another one, in front of that handler.
    """

    def __init__(self) -> None:
        self._delayed: set[int] = set()

    def handle(self) -> None:
        """Pass the signals on to the event loops that watch them; for the main thread."""
        for number in NUMBERS:
            handler = signal.getsignal(number)
            is_ours = isinstance(handler, _Receiver)
            if callable(handler) and handler is not signal.default_int_handler and not is_ours:
                signal.signal(number, _Receiver(self, handler))

    def receive(self, former: Handler, number: int, frame: FrameType | None) -> Any:
        """Tell the event loops; call the former handler now, or when its ASGI server may stop."""
        here = running_loop()  # Of the main thread, where Python calls the handlers of signals.
        is_watched = here is not None and loops.here_if_any(_Watcher) is not None
        may_wait = is_watched and number not in self._delayed
        server = asgi_servers.find(former) if may_wait else None
        for loop, watcher in loops.everywhere(_Watcher):
            if loop is here and server is not None:
                pass_on = partial(former, number, None)
                loop.call_soon_threadsafe(_begin, watcher.begin, server, pass_on)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(watcher.begin, None)
        if server is None:
            return former(number, frame)
        self._delayed.add(number)
        return None


@dataclass(frozen=True, slots=True)
class _Receiver:
    """A handler of a signal, in place of the ``former`` one."""

    signals: StopSignals
    former: Handler

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        return self.signals.receive(self.former, number, frame)


def _begin(begin: Begin, server: AsgiServer, pass_on: Callable[[], Any]) -> None:
    begin(server).add_done_callback(lambda _: pass_on())


_signals = StopSignals()
handle_signals = _signals.handle
