"""What a WSGI server still does when it is told to stop: calls, and tasks in the process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.http_client import TIMEOUT, call, connect, stateless
from tests.processes import ServerProcess, server
from tests.waiting import wait_until
from tests.wsgi import servers
from tests.wsgi.servers import GUNICORN, GUNICORN_THREADS, environment

GUNICORNS = {"gunicorn": GUNICORN, "gunicorn with threads": GUNICORN_THREADS}


@contextmanager
def calling(
    command: servers.Command, tool: str, folder: Path, **arguments: Any
) -> Iterator[tuple[ServerProcess, list[str]]]:
    """A server while a call runs, and the response when the block has ended."""
    started = folder / "started"
    answers: list[str] = []
    with server(command, environment=environment(folder)) as running:

        def send() -> None:
            answers.append(call(running.port, tool, started=str(started), **arguments).text)

        thread = Thread(target=send)
        thread.start()
        wait_until(started.exists)
        yield running, answers
        thread.join(TIMEOUT)


@pytest.mark.parametrize("name", GUNICORNS)
def test_worker_that_is_told_to_stop_finishes_its_call(name: str, tmp_path: Path) -> None:
    with calling(GUNICORNS[name], "sleep_in_thread", tmp_path, seconds=1.5) as (running, answers):
        running.terminate()
        running.process.wait(TIMEOUT)
    assert "slept" in answers[0]


@pytest.mark.parametrize("name", GUNICORNS)
def test_call_that_outlasts_the_stop_is_answered_with_an_error(name: str, tmp_path: Path) -> None:
    with calling(GUNICORNS[name], "wait", tmp_path) as (running, answers):
        running.terminate()
        running.process.wait(TIMEOUT)
    assert json.loads(answers[0])["error"]["message"] == "The server is stopping"


RELOADED = [
    *GUNICORNS,
    pytest.param("uWSGI", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("name", RELOADED)
def test_worker_that_is_replaced_finishes_its_call(name: str, tmp_path: Path) -> None:
    command = GUNICORNS.get(name) or servers.command(name, tmp_path)
    with calling(command, "sleep_in_thread", tmp_path, seconds=1.5) as (running, answers):
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: answers)
        assert call(running.port, "add", a=1, b=2)
    assert "slept" in answers[0]


STOPPED = [
    ("gunicorn", signal.SIGTERM),
    pytest.param("gunicorn with threads", signal.SIGTERM, marks=pytest.mark.nightly),
    pytest.param("waitress", signal.SIGINT, marks=pytest.mark.nightly),
    pytest.param("runserver", signal.SIGINT, marks=pytest.mark.nightly),
    pytest.param("uWSGI without lazy-apps", signal.SIGTERM, marks=pytest.mark.nightly),
    pytest.param("mod_wsgi", signal.SIGTERM, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("tool", ["work", "work_in_loop"])
@pytest.mark.parametrize(("name", "number"), STOPPED)
def test_task_in_a_process_that_is_told_to_stop_is_completed(
    name: str, number: signal.Signals, tool: str, tmp_path: Path
) -> None:
    command = GUNICORNS.get(name) or servers.command(name, tmp_path)
    variables = environment(tmp_path)
    started = tmp_path / "started"
    with server(command, environment=variables) as running:
        arguments = {"seconds": 1.5, "started": str(started)}
        params = {"name": tool, "arguments": arguments}
        accepted = ask(running.port, "tools/call", tool, params)
        wait_until(started.exists)
        os.kill(running.process.pid, number)
        running.process.wait(TIMEOUT)
        log = running.log
    with server(GUNICORN, environment=variables) as running:
        task_id = accepted["taskId"]
        task = ask(running.port, "tasks/get", task_id, {"taskId": task_id})
    assert task["status"] == "completed", log
    assert task["result"]["content"][0]["text"] == "0 groups"


def ask(port: int, method: str, name: str, params: dict[str, Any]) -> Any:
    """Send a request of a client that supports tasks; return the result."""
    body, headers = stateless(method, params, extensions={"io.modelcontextprotocol/tasks": {}})
    with connect(port) as client:
        response = client.post("/mcp", content=body, headers={**headers, "Mcp-Name": name})
    return response.json()["result"]
