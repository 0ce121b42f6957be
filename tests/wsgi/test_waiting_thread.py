"""Synchronous handlers on the thread of a WSGI server that waits for their response."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, async_to_sync

from django_mcp import Server
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.routing import endpoint
from django_mcp.runtime import pools
from django_mcp.transports.http.request import WAITING_THREAD
from django_mcp.transports.wsgi import event_loop, waiting_thread
from django_mcp.transports.wsgi.waiting_thread import (
    FAST,
    MOST_SCORE,
    PROVEN,
    SLOW,
    score_after,
)
from tests.dispatch.test_control_exceptions import CONTROL
from tests.http_client import message
from tests.waiting import SECONDS
from tests.wsgi.requests import environ, perform
from tests.wsgi.test_bridge import bridged

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
    waiting_thread._scores.clear()


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


@pytest.mark.parametrize("limit", ["FAST", "SLOW"])
def test_handler_that_was_slow_runs_in_the_pool_again(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(is_here) as call:
        for _ in range(PROVEN):
            call()
        monkeypatch.setattr(waiting_thread, limit, 0)
        assert call()
        assert not call()


def after(score: int, *calls: tuple[float, float]) -> int:
    """The score after calls, of which each has computed and has taken some seconds."""
    for computed, elapsed in calls:
        score = score_after(score, computed, elapsed)
    return score


QUICK = (0.0, 0.0)
WAITED = (0.0, 2 * FAST)
"""It has waited: for a service, or for a processor."""
COMPUTED = (2 * FAST, 2 * FAST)
HUNG = (0.0, 2 * SLOW)


@pytest.mark.parametrize("slow_call", [WAITED, COMPUTED, HUNG])
def test_handler_with_a_slow_call_among_its_first_is_not_fast(
    slow_call: tuple[float, float],
) -> None:
    assert after(0, *[QUICK] * (PROVEN - 1), slow_call, QUICK) < PROVEN


def test_fast_handler_stays_fast_if_a_loaded_machine_delays_single_calls() -> None:
    score = MOST_SCORE
    for _ in range(100):
        score = after(score, WAITED, *[QUICK] * 15)
    assert score >= PROVEN


def test_handler_that_waits_in_each_call_is_never_fast() -> None:
    assert after(0, *[WAITED] * 100) == 0


def test_fast_handler_that_begins_to_wait_is_not_fast_after_a_few_calls() -> None:
    assert after(MOST_SCORE, *[WAITED] * 3) >= PROVEN
    assert after(MOST_SCORE, *[WAITED] * 4) < PROVEN


@pytest.mark.parametrize("slow_call", [COMPUTED, HUNG])
def test_one_call_that_computes_or_hangs_ends_the_proof(slow_call: tuple[float, float]) -> None:
    assert after(MOST_SCORE, slow_call) == 0


def test_time_in_the_queue_of_the_pool_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_pool = pools.run

    async def run_later(*arguments: Any) -> Any:
        clock.now += SLOW
        return await run_in_pool(*arguments)

    clock = SteppingClock()
    monkeypatch.setattr(waiting_thread, "monotonic", clock)
    monkeypatch.setattr(pools, "run", run_later)
    with served(is_here) as call:
        assert [call() for _ in range(PROVEN + 1)][-1]


class SteppingClock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


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
