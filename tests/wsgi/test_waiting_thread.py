"""Synchronous handlers on the thread of a WSGI server that waits for their response."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, async_to_sync

from django_mcp import Frame, Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.frame.client.base import current
from django_mcp.core.protocol import jsonrpc
from django_mcp.routing import endpoint
from django_mcp.runtime import pools
from django_mcp.testing.asgi import Reply
from django_mcp.transports.http.request import WAITING_THREAD
from django_mcp.transports.wsgi import event_loop, waiting_thread
from django_mcp.transports.wsgi.waiting_thread import MAX_DURATION, MAX_PROCESSOR_TIME, PROVEN
from tests.core.dispatch.control_exceptions import CONTROL
from tests.http_client import message
from tests.memory_stores import configure
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import SESSIONS
from tests.wsgi.requests import bridged, environ, perform

__all__ = ["configure"]

Call = Callable[..., Any]
META = "_meta"


@contextmanager
def served(tool: Any) -> Iterator[Call]:
    """Calls of a tool on a server of its own; each returns the structured content."""
    server = Server("wsgi-threads", authenticators=[AnonymousAuthentication()])
    server.tool(name="tool")(tool)
    application = bridged(endpoint(server), {WAITING_THREAD: waiting_thread})

    def call(*, progress_token: str | None = None, log_level: str | None = None) -> Any:
        body, headers = message("tool", {})
        content = json.loads(body)
        meta = content["params"][META]
        del meta["progressToken"]
        if progress_token is not None:
            meta["progressToken"] = progress_token
        if log_level is not None:
            meta["io.modelcontextprotocol/logLevel"] = log_level
        headers["Host"] = "testserver"
        variables = environ(path="/mcp", headers=headers, body=json.dumps(content).encode())
        return json.loads(perform(application, variables).body)["result"]["structuredContent"]

    yield call
    waiting_thread._fast_calls.clear()


def is_here() -> bool:
    return threading.current_thread() is threading.main_thread()


def test_handler_runs_on_the_waiting_thread_when_it_has_proven_to_be_fast() -> None:
    with served(is_here) as call:
        places = [call() for _ in range(PROVEN + 2)]
    assert places == [False] * PROVEN + [True, True]


@pytest.mark.parametrize("asked", [{"progress_token": "t"}, {"log_level": "info"}])
def test_handler_that_may_send_notifications_runs_in_the_pool(asked: dict[str, str]) -> None:
    with served(is_here) as call:
        places = [call(**asked) for _ in range(PROVEN)] + [call() for _ in range(PROVEN)]
        assert not any(places)
        assert call()
        assert not call(**asked)


def test_call_on_the_waiting_thread_leaves_nothing_to_the_garbage_collector() -> None:
    def left_by(call: Call) -> int:
        gc.collect()
        assert call()
        return gc.collect()

    with served(is_here) as call:
        for _ in range(PROVEN):
            call()
        gc.disable()
        try:
            # Threads of earlier tests may end meanwhile; what a call leaves is there each time.
            left = [left_by(call) for _ in range(3)]
        finally:
            gc.enable()

    assert min(left) == 0


class Clock:
    """A clock that goes on when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.now = 0.0
        for name in names:
            monkeypatch.setattr(waiting_thread, name, lambda: self.now)


WAITED = (["monotonic"], 2 * MAX_DURATION)
COMPUTED = (["monotonic", "thread_time"], 2 * MAX_PROCESSOR_TIME)
DELAYED = (["monotonic"], 2 * MAX_PROCESSOR_TIME)
"""By other threads, or by a machine with other work."""


@pytest.mark.parametrize(("clocks", "seconds"), [WAITED, COMPUTED])
def test_handler_that_was_slow_runs_in_the_pool_again(
    clocks: list[str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, *clocks)
    duration = 0.0

    def where() -> bool:
        clock.now += duration
        return is_here()

    with served(where) as call:
        for _ in range(PROVEN):
            call()
        duration = seconds
        assert call()
        assert not call()


@pytest.mark.parametrize(
    ("clocks", "seconds", "is_proven"), [(*WAITED, False), (*COMPUTED, False), (*DELAYED, True)]
)
def test_handler_is_proven_by_what_it_computes_and_not_by_delays(
    clocks: list[str], seconds: float, is_proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, *clocks)

    def where() -> bool:
        clock.now += seconds
        return is_here()

    with served(where) as call:
        assert [call() for _ in range(PROVEN + 1)][-1] is is_proven


def test_time_in_the_queue_of_the_pool_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_pool = pools.run
    clock = Clock(monkeypatch, "monotonic")

    async def run_later(*arguments: Any) -> Any:
        clock.now += 2 * MAX_DURATION
        return await run_in_pool(*arguments)

    monkeypatch.setattr(pools, "run", run_later)
    with served(is_here) as call:
        assert [call() for _ in range(PROVEN + 1)][-1]


def test_event_loop_runs_while_a_handler_blocks_the_waiting_thread() -> None:
    def pass_on() -> bool:
        done = threading.Event()
        event_loop.current().loop.call_soon_threadsafe(done.set)
        return done.wait(SECONDS) and is_here()

    with served(pass_on) as call:
        assert [call() for _ in range(PROVEN + 1)][-1]


def test_handler_reaches_the_event_loop_and_the_thread_forgets_it() -> None:
    async def thread() -> str:
        return threading.current_thread().name

    def of_coroutine() -> list[Any]:
        return [async_to_sync(thread)(), is_here()]

    # Other tests of this thread may have left a loop there.
    vars(SyncToAsync.threadlocal).pop("main_event_loop", None)
    with served(of_coroutine) as call:
        answers = [call() for _ in range(PROVEN + 1)]
    assert answers[-1] == ["django_mcp-loop", True]
    assert not hasattr(SyncToAsync.threadlocal, "main_event_loop")


@pytest.mark.parametrize("error", CONTROL)
@pytest.mark.parametrize("is_async", [False, True])
def test_handler_that_raises_what_controls_python_is_answered(
    error: type[BaseException], is_async: bool
) -> None:
    def fail() -> str:
        raise error

    async def fail_async() -> str:
        raise error

    def good() -> bool:
        return True

    with served(fail_async if is_async else fail) as call, pytest.raises(KeyError):
        call()  # Its result is an error, without structured content.
    with served(good) as call:
        assert call() is True


def test_failed_handler_is_answered_from_the_waiting_thread() -> None:
    def fail() -> bool:
        if is_here():
            raise StopIteration
        return False

    with served(fail) as call:
        for _ in range(PROVEN):
            call()
        with pytest.raises(KeyError, match="structuredContent"):
            call()


@contextmanager
def in_session(tool: Any, *, requests_input: bool = False) -> Iterator[Callable[..., Reply]]:
    """Calls of a tool in one session of a server of its own."""
    server = Server("wsgi-session", authenticators=[AnonymousAuthentication()])
    server.tool(name="tool", requests_input=requests_input)(tool)
    application = bridged(endpoint(server), {WAITING_THREAD: waiting_thread})
    wire = AsgiClient(server, SESSIONS[-1])

    def send(content: Any) -> Reply:
        headers = {**wire.headers_of(content), "Host": "testserver"}
        variables = environ(path="/mcp", headers=headers, body=json.dumps(content).encode())
        return perform(application, variables)

    def call(*, progress_token: str | None = None) -> Reply:
        content = wire.call("tool")
        meta = {} if progress_token is None else {"progressToken": progress_token}
        content["params"][META] = meta
        return send(content)

    opened = send(wire.initialize_request())
    wire.session = opened.headers["mcp-session-id"]
    send(jsonrpc.notification("notifications/initialized"))
    yield call
    waiting_thread._fast_calls.clear()


def was_here(reply: Reply) -> Any:
    return reply.json()["result"]["structuredContent"]["result"]


def test_handler_in_a_session_runs_on_the_waiting_thread_when_it_has_proven_to_be_fast() -> None:
    with in_session(is_here) as call:
        places = [was_here(call()) for _ in range(PROVEN + 2)]
    assert places == [False] * PROVEN + [True, True]


def test_handler_in_a_session_that_may_use_the_client_runs_in_the_pool() -> None:
    def takes_frame(frame: Frame) -> bool:
        return is_here()

    with in_session(takes_frame) as call:
        assert not any(was_here(call()) for _ in range(PROVEN + 2))
    with in_session(is_here, requests_input=True) as call:
        assert not any(was_here(call()) for _ in range(PROVEN + 2))


def test_call_in_a_session_that_asks_for_progress_runs_in_the_pool() -> None:
    with in_session(is_here) as call:
        for _ in range(PROVEN):
            call()
        assert not was_here(call(progress_token="t"))


def test_handler_that_logs_for_its_client_runs_in_the_pool_again() -> None:
    logs = False

    def may_log() -> bool:
        if logs:
            client = current.get()
            assert client is not None
            client.log("warning", "low stock")
        return is_here()

    with in_session(may_log) as call:
        for _ in range(PROVEN):
            call()
        logs = True
        assert events(call()) == [("low stock", None), (None, True)]
        assert events(call()) == [("low stock", None), (None, False)]


def events(reply: Reply) -> list[tuple[Any, Any]]:
    """For each event of a response, the text that was logged and the result."""
    messages = [json.loads(event.data) for event in reply.events() if event.data]
    return [
        (
            message.get("params", {}).get("data"),
            message.get("result", {}).get("structuredContent", {}).get("result"),
        )
        for message in messages
    ]
