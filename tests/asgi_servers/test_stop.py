"""A process that is told to stop, under each ASGI server: what its clients receive."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.asgi_servers.programs import BARE
from tests.http_client import TIMEOUT, message, stateless
from tests.processes import server
from tests.waiting import until, wait_until

pytestmark = pytest.mark.nightly

APPLICATION = "tests.asgi_servers.stop_site:application"
SESSION = "2025-11-25"
STATELESS = "2026-07-28"
SHUTDOWN_TIMEOUT = 4.0
"""That of the site."""
WORKER = "uvicorn_worker.UvicornWorker"

SERVERS = {
    "uvicorn": ["uvicorn", "--port", "{port}", APPLICATION],
    "uvicorn without lifespan": ["uvicorn", "--port", "{port}", "--lifespan", "off", APPLICATION],
    "granian": ["granian", "--interface", "asgi", "--port", "{port}", APPLICATION],
    "daphne": ["daphne", "-b", "127.0.0.1", "-p", "{port}", APPLICATION],
    "hypercorn": [
        *("hypercorn", "--workers", "0", "--graceful-timeout", "10"),
        *("--bind", "127.0.0.1:{port}", APPLICATION),
    ],
    "gunicorn": ["gunicorn", "--bind", "127.0.0.1:{port}", "-k", WORKER, APPLICATION],
}
"""Each with one process, which receives SIGTERM, or is told by the one that does."""

Message = dict[str, Any]


@dataclass
class Stopped:
    """What each client received, and when, in seconds since SIGTERM."""

    answers: dict[str, list[Message]] = field(default_factory=dict)
    """The messages after the signal, by request."""
    raw: dict[str, str] = field(default_factory=dict)
    """The text of each response after the signal."""
    at: dict[str, float] = field(default_factory=dict)
    """When it was complete."""
    ended_at: float = 0.0
    """When the process had ended."""
    log: str = ""


@pytest.fixture(params=SERVERS, scope="module")
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """A site that was told to stop while every kind of request was running."""
    folder = tmp_path_factory.mktemp("stop")
    with server(SERVERS[request.param], environment=BARE) as running:
        result = asyncio.run(Clients(running.port, folder, running.process).stop())
        result.log = running.log
    return result


class Clients:
    """Clients with every kind of request to one site."""

    def __init__(self, port: int, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.site = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.process = process
        self.result = Stopped()
        self.stopped_at = 0.0
        self.ready: dict[str, asyncio.Event] = {}
        self.http = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)

    async def stop(self) -> Stopped:
        """Send SIGTERM while everything runs; the result when all is over."""
        async with self.http, self._session() as session:
            requests = [
                asyncio.ensure_future(each)
                for each in (
                    self._call("call", "sleep", 1.5),
                    self._call("call in a thread", "sleep_in_thread", 1.5),
                    self._call("long call", "sleep", 60),
                    self._stream("listen", self._listen()),
                    self._stream("get", self._get(session)),
                    self._stream("question", self._question(session)),
                    self._page(),
                )
            ]
            async with asyncio.timeout(TIMEOUT):
                await asyncio.gather(*(self._started(name) for name in CALLS))
                await asyncio.gather(*(self._event(name).wait() for name in STREAMS))
            self.stopped_at = time.monotonic()
            self.process.terminate()
            await asyncio.gather(*requests)
            await asyncio.to_thread(self.process.wait, TIMEOUT)
            self.result.ended_at = time.monotonic() - self.stopped_at
        return self.result

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[dict[str, str]]:
        """The headers of an initialized session."""
        hello = {
            "protocolVersion": SESSION,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        headers = {"Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}
        response = await self.http.post(f"{self.site}/mcp", json=body, headers=headers)
        headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.http.post(f"{self.site}/mcp", json=ready, headers=headers)
        yield headers

    def _event(self, name: str) -> asyncio.Event:
        return self.ready.setdefault(name, asyncio.Event())

    async def _started(self, name: str) -> None:
        await until(lambda: (self.folder / name).exists())

    def _note(self, name: str, text: str) -> None:
        lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
        found = [json.loads(line) for line in lines if line.startswith("{")]
        self.result.answers[name], self.result.raw[name] = found, text
        self.result.at[name] = time.monotonic() - self.stopped_at

    async def _call(self, name: str, tool: str, seconds: float) -> None:
        started = str(self.folder / name)
        body, headers = message(tool, {"seconds": seconds, "started": started})
        response = await self.http.post(f"{self.site}/mcp", content=body, headers=headers)
        self._note(name, response.text)

    async def _page(self) -> None:
        started = {"started": str(self.folder / "page")}
        response = await self.http.get(f"{self.site}/page", params=started)
        self.result.raw["page"] = response.text

    async def _stream(self, name: str, request: httpx.Request) -> None:
        """Read a response which is a stream, from what follows its first event."""
        response = await self.http.send(request, stream=True)
        assert response.status_code == 200, await response.aread()
        text = ""
        async for part in response.aiter_text():
            if name != "question" or "elicitation/create" in text + part:
                self._event(name).set()
            text = text + part
        await response.aclose()
        self._note(name, text)

    def _listen(self) -> httpx.Request:
        params = {"notifications": {"toolsListChanged": True}}
        body, headers = stateless("subscriptions/listen", params)
        return self.http.build_request("POST", f"{self.site}/mcp", content=body, headers=headers)

    def _get(self, session: dict[str, str]) -> httpx.Request:
        headers = {**session, "Accept": "text/event-stream"}
        return self.http.build_request("GET", f"{self.site}/mcp", headers=headers)

    def _question(self, session: dict[str, str]) -> httpx.Request:
        params = {"name": "ask", "arguments": {}, "_meta": {"progressToken": 1}}
        body = {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}
        return self.http.build_request("POST", f"{self.site}/mcp", json=body, headers=session)


CALLS = ("call", "call in a thread", "long call", "page")
STREAMS = ("listen", "get", "question")


@pytest.mark.parametrize("name", ["call", "call in a thread"])
def test_running_call_is_finished(stopped: Stopped, name: str) -> None:
    assert stopped.answers[name][-1]["result"]["content"][0]["text"] == "slept", stopped.log


def test_call_that_takes_longer_than_the_timeout_receives_an_error(stopped: Stopped) -> None:
    (answer,) = (each for each in stopped.answers["long call"] if "id" in each)
    assert answer["error"]["message"] == "The server is stopping"
    assert stopped.at["long call"] >= SHUTDOWN_TIMEOUT - 0.5


def test_listen_stream_ends_at_once_with_its_result(stopped: Stopped) -> None:
    answer = stopped.answers["listen"][-1]
    assert answer["id"] == 1
    assert answer["result"]["resultType"] == "complete"
    assert stopped.at["listen"] < SHUTDOWN_TIMEOUT


def test_get_stream_ends_with_a_retry_time(stopped: Stopped) -> None:
    last = stopped.raw["get"].strip().rpartition("\n\n")[2]
    assert last == "retry: 1000"
    assert stopped.at["get"] < SHUTDOWN_TIMEOUT


def test_question_that_cannot_be_answered_any_more_is_given_up_at_once(stopped: Stopped) -> None:
    question, *_, answer = (
        each for each in stopped.answers["question"] if "progress" not in str(each.get("method"))
    )
    given_up = [
        each["params"]
        for each in stopped.answers["question"]
        if each.get("method") == "notifications/cancelled"
    ]
    assert question["method"] == "elicitation/create"
    assert given_up == [{"requestId": question["id"], "reason": "The server is stopping"}]
    assert answer["result"]["isError"] is True
    assert stopped.at["question"] < SHUTDOWN_TIMEOUT


def test_page_of_the_site_is_finished(stopped: Stopped) -> None:
    assert stopped.raw["page"] == "page"


def test_process_ends_soon_after_the_last_response(stopped: Stopped) -> None:
    assert stopped.ended_at < SHUTDOWN_TIMEOUT + 10


@pytest.mark.parametrize("name", ["uvicorn", "granian", "daphne", "gunicorn"])
def test_requests_that_wait_at_the_signal_are_answered(name: str, tmp_path: Path) -> None:
    with server(SERVERS[name], environment=BARE) as running, ExitStack() as stack:
        started = tmp_path / "started"
        body, headers = message("block", {"seconds": 1.5, "started": str(started)})
        connections = [HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT) for _ in range(8)]
        for connection in connections:
            stack.callback(connection.close)
        connections[0].request("POST", "/mcp", body, headers)
        wait_until(started.exists)
        body, headers = message("sleep", {"seconds": 0, "started": str(started)})
        for connection in connections[1:]:
            connection.request("POST", "/mcp", body, headers)
        running.terminate()
        found = [connection.getresponse().read().decode() for connection in connections]

    assert ["slept" in each for each in found] == [True] * len(connections)
