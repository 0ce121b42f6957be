"""From calls that are over to rows: a queue in memory, and a batch of rows once a second.

An entry has the size of the arguments, and the values that the tool allows to be stored, as bounded
JSON.

The event loop appends the values of a call, with its arguments as JSON; everything else happens on
the thread that writes. A batch that cannot be written goes back to the front of the queue, and is
tried again. The queue is bounded: when the database is away for long, the oldest calls are dropped.

A process that stops writes what waits: ``background.finish``, and ``atexit`` for the rest.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections
from django.db.utils import InterfaceError, OperationalError, ProgrammingError

from django_mcp.contrib.call_log import rows
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.concurrency.forks import ProcessLock, begin_anew
from django_mcp.core.concurrency.loops import PerLoop
from django_mcp.core.dispatch.call_records import TARGETS
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.server.server import Server
from django_mcp.runtime import background, pools
from django_mcp.runtime.store_operations import StoreUnavailable

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

logger = logging.getLogger("django_mcp")

INTERVAL = 1.0
"""Seconds from a call until its row is written."""
BATCH = 500
"""Rows of one statement. As many calls are written at once, before the interval ends."""
MAX_WAITING = 10_000
"""Calls that wait while the database is away: about 10 MB."""
LOG_ARGUMENTS = "log_arguments"
"""The option of a tool with the names of its arguments whose values are stored."""
THREADS = "call log"
"""The threads that write: a database that hangs holds up nothing else."""
EXIT_WITHIN = 5.0
"""Seconds that a process that exits waits for a batch that another thread writes."""
MAX_TEXT = 200
"""Characters of one string."""
MAX_VALUES = 50
"""Values of all arguments together."""
MAX_JSON = 4000
"""Characters of the JSON; beyond, each value is replaced by CUT."""
CUT = "…"
SECRET = ("download_url",)
"""Members that are never stored: whoever has the signed URL of a file has the file."""

# PostgreSQL reports a missing table as a ProgrammingError: the migration may follow.
AWAY = (OperationalError, InterfaceError, ProgrammingError, StoreUnavailable)
NOT_WRITTEN = "The call log cannot be written; trying again"
DROPPED = "Calls are missing in the call log, because its database was away for too long"
REFUSED = "A call cannot be written to the call log"


class Entry(NamedTuple):
    """A call that is over, as the event loop has it."""

    ended_at: float
    duration: float
    outcome: str
    method: str
    target: Any
    server: Server
    principal: Principal
    user: Any
    revision: str
    client: Mapping[str, Any] | None
    arguments: str
    arguments_size: int | None
    response_size: int | None
    error: str = ""
    exception: tuple[str, str] = ("", "")
    component_read: str | None = None
    """The key of the resource or template that has answered, where it is known."""


def record(frame: Frame, outcome: str, duration: float, response_size: int | None) -> None:
    """Append a call that is over to the queue: its batch is written soon."""
    request = frame.message
    method = request.method
    params = request.params
    target = params.get(TARGETS[method])
    sent = params.get("arguments")
    error_text = ""
    if outcome != "ok":
        # The text that the client received.
        error = frame.exchange.error
        error_text = frame.exchange.error_text if error is None else str(error.message)
    QUEUE.append(
        Entry(
            time.time(),
            duration,
            outcome,
            method,
            target,
            frame.server,
            frame.principal,
            frame.user,
            frame.revision.version,
            frame.private.get("client_info"),
            _logged_of_call(frame, target, sent) if method == "tools/call" else "",
            size_of(sent),
            response_size,
            error_text,
            frame.exchange.exception,
            frame.exchange.component_read,
        )
    )


def _logged_of_call(frame: Frame, name: Any, sent: Any) -> str:
    """The JSON of the arguments that the tool allows; "" for a tool that its session has."""
    if not isinstance(name, str) or f"tool:{name}" in frame.private.get("components", ()):
        return ""
    tool = frame.server.components.find(ToolComponent.kind, name)
    names = () if tool is None else tool.options.get(LOG_ARGUMENTS, ())
    return logged(names, sent) if names else ""


def size_of(arguments: Any) -> int | None:
    """The bytes of arguments as compact JSON; None without any, or if they are not JSON."""
    if not arguments:
        return None
    try:
        return len(jsonrpc.encode(arguments))
    except ValueError:
        return None


def logged(names: Iterable[str], arguments: Any) -> str:
    """The JSON of the arguments with these names; "" if none of them was sent."""
    if not isinstance(arguments, dict):
        return ""
    values = _Values()
    chosen = {name: values.cut(arguments[name]) for name in names if name in arguments}
    if not chosen:
        return ""
    text = json.dumps(chosen)
    return text if len(text) <= MAX_JSON else json.dumps(dict.fromkeys(chosen, CUT))


class _Values:
    """Copies JSON values, up to MAX_VALUES of them."""

    def __init__(self) -> None:
        self._count = 0

    def cut(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            return CUT
        if isinstance(value, str):
            return _cut(value)
        if isinstance(value, list):
            return [self.cut(item) for item in value[: MAX_VALUES + 1]]
        if isinstance(value, dict):
            names = list(value)[: MAX_VALUES + 1]
            return {_cut(n): CUT if n in SECRET else self.cut(value[n]) for n in names}
        return value


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + CUT


class Queue:
    """The calls that wait for their rows, of all event loops of this process.

    One thread at a time writes a batch. It takes the oldest calls out of the queue, and puts them
    back if the database is away. The queue is bounded: what comes in then drops the oldest. A
    writer of each event loop that appends runs as long as calls wait.
    """

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque(maxlen=MAX_WAITING)
        self.writing = ProcessLock()
        """Held while a batch is written, so that a process that exits knows the rest."""
        self._writers = PerLoop(partial(Writer, self))
        begin_anew(self._begin)

    def append(self, entry: Entry) -> None:
        """Append a call; the writer of the running event loop writes it soon."""
        if len(self.waiting) == MAX_WAITING:
            log_repeated(logging.WARNING, DROPPED)
        self.waiting.append(entry)
        writer = self._writers.here()
        if not writer.is_running:
            writer.start()
        elif len(self.waiting) >= BATCH:
            writer.is_due.set()

    def _begin(self) -> None:
        self.waiting.clear()  # In a forked child: the calls belong to its parent.

    async def write(self) -> None:
        """Write all calls that wait, unless the database is away."""
        while self.waiting:
            try:
                await pools.run_in_threads_of(THREADS, self.write_batch)
            except AWAY:
                log_repeated(logging.WARNING, NOT_WRITTEN, exc_info=True)
                return

    def write_batch(self) -> None:
        """Write the oldest calls. They are back in the queue if the database is away."""
        with self.writing:
            entries = [self.waiting.popleft() for _ in range(min(BATCH, len(self.waiting)))]
            try:
                _write(entries)
            except BaseException:
                self._put_back(entries)
                raise

    def _put_back(self, entries: list[Entry]) -> None:
        # A full queue would drop its newest calls.
        room = MAX_WAITING - len(self.waiting)
        if len(entries) > room:
            log_repeated(logging.WARNING, DROPPED, times=len(entries) - room)
            del entries[: len(entries) - room]
        self.waiting.extendleft(reversed(entries))

    def write_at_exit(self) -> None:
        """Write the queue on this thread, since Python cannot start others any more."""
        try:
            while self.waiting:
                # A thread that is writing is waited for, but not if its database hangs.
                if not self.writing.waits_until_free(EXIT_WITHIN):
                    raise TimeoutError("another batch is still being written")
                self.write_batch()
        except Exception as error:
            missing = len(self.waiting)
            logger.warning("The last %d calls are missing in the call log: %s", missing, error)
        finally:
            connections.close_all()


class Writer:
    """Writes what waits, from one event loop, as long as there is something."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.is_running = False
        self.is_due = asyncio.Event()

    def start(self) -> None:
        self.is_running = True
        background.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self.queue.waiting:
                await self._wait()
                await self.queue.write()
        finally:
            self.is_running = False

    async def _wait(self) -> None:
        self.is_due.clear()
        try:
            async with asyncio.timeout(INTERVAL):
                await self.is_due.wait()
        except TimeoutError:
            return


def _write(entries: list[Entry]) -> None:
    try:
        rows.write(entries)
    except AWAY:
        raise
    except Exception:
        # One that the database refuses does not hold up the others.
        while entries:
            try:
                rows.write(entries[:1])
            except AWAY:
                raise
            except Exception:
                log_repeated(logging.ERROR, REFUSED, exc_info=True)
            del entries[0]


QUEUE = Queue()

atexit.register(QUEUE.write_at_exit)
