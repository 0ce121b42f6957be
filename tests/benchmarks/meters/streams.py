"""Open streams: their memory, and the time to send a notification to all of them."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from statistics import median

from tests.benchmarks import machine, wire
from tests.benchmarks.answers import (
    TIMEOUT,
    Answer,
    MeasurementError,
    fetch,
    fetch_stream,
    open_response,
    read_event,
)
from tests.benchmarks.bare import PUBLISH as BARE_PUBLISH
from tests.benchmarks.calls import PUBLISH
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.processes import Served, serving
from tests.benchmarks.samples import Effort, Meter, Ready, Sample, percentile

CHANGED = b"list_changed"
WARM_UP = 20
"""Streams that are open before the first memory measurement."""
PAUSE = 0.15
"""Seconds between two notifications: what follows within 100 ms is sent later, once."""


@contextmanager
def idle(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Each round starts a new process, because freed memory would hide the memory in use."""
    with serving(contestant) as served:
        answer = _first_event(served)
    yield Ready(sample=lambda: _memory(contestant, effort), answer=answer)


@contextmanager
def fan_out(contestant: Contestant, effort: Effort) -> Iterator[Ready]:
    """Open the streams once; each round sends several notifications to all of them."""
    with serving(contestant) as served:
        answer = _with_event(served)
        with open_streams(served, effort.streams) as streams:
            _time_to_notify(served, streams)
            yield Ready(
                sample=lambda: _notifications(served, streams, effort.repeats), answer=answer
            )


MEMORY = Meter(unit="kB/stream", ready=idle)
FAN_OUT = Meter(unit="ms", ready=fan_out)


@contextmanager
def open_streams(served: Served, count: int) -> Iterator[list[socket.socket]]:
    """Open this number of streams, and wait for the first event of each."""
    streams: list[socket.socket] = []
    call = served.contestant.call
    request = wire.request(served.port, served.contestant.path, call.all_headers, call.body)
    try:
        for _ in range(count):
            stream = socket.create_connection(("127.0.0.1", served.port), timeout=TIMEOUT)
            streams.append(stream)
            stream.sendall(request)
            _read_to(stream, b"acknowledged")
        yield streams
    finally:
        for stream in streams:
            stream.close()


def _memory(contestant: Contestant, effort: Effort) -> Sample:
    with serving(contestant) as served, open_streams(served, WARM_UP):
        before = machine.memory_kb(served.pid)
        with open_streams(served, effort.streams):
            after = machine.memory_kb(served.pid)
    return Sample(value=max(1, after - before) / effort.streams)


def _notifications(served: Served, streams: list[socket.socket], repeats: int) -> Sample:
    times = [_time_to_notify(served, streams) for _ in range(repeats)]
    return Sample(value=median(times), p50=percentile(times, 50), p99=percentile(times, 99))


def _time_to_notify(served: Served, streams: list[socket.socket]) -> float:
    """Milliseconds from the publishing request until every stream has received the event."""
    time.sleep(PAUSE)
    request = _trigger(served)
    waiting = select.epoll()
    by_number = {stream.fileno(): stream for stream in streams}
    for number in by_number:
        waiting.register(number, select.EPOLLIN)
    with closing(waiting), socket.create_connection(("127.0.0.1", served.port)) as trigger:
        began = time.perf_counter()
        trigger.sendall(request)
        while by_number:
            for number, _ in waiting.poll(TIMEOUT) or _nothing(len(by_number)):
                if CHANGED in by_number[number].recv(65536):
                    waiting.unregister(number)
                    del by_number[number]
        lasted = time.perf_counter() - began
        trigger.settimeout(TIMEOUT)
        trigger.recv(65536)
    return lasted * 1000


def _nothing(missing: int) -> list[tuple[int, int]]:
    raise MeasurementError(f"{missing} streams received no event within {TIMEOUT:g} seconds")


def _first_event(served: Served) -> Answer:
    """Return the first part of the response that the bare application repeats before it waits."""
    contestant = served.contestant
    return fetch_stream(served.port, contestant.path, contestant.call).with_event(b"")


def _with_event(served: Served) -> Answer:
    """Return the same response, with the event to write later."""
    contestant = served.contestant
    if contestant.answer is not None:
        return contestant.answer
    with open_response(served.port, contestant.path, contestant.call) as stream:
        read_event(stream)
        fetch(served.port, contestant.path, PUBLISH)
        event = read_event(stream)
    return _first_event(served).with_event(event)


def _trigger(served: Served) -> bytes:
    """The request that publishes the notification."""
    path = served.contestant.path if served.contestant.answer is None else BARE_PUBLISH
    return wire.request(served.port, path, PUBLISH.all_headers, PUBLISH.body)


def _read_to(stream: socket.socket, mark: bytes) -> None:
    read = b""
    while mark not in read:
        piece = stream.recv(65536)
        if not piece:
            raise MeasurementError(f"The stream ended with {read!r}")
        read += piece
