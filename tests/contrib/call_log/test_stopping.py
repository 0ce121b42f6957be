"""No row is lost when a process is told to stop in mid-traffic, whatever serves it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from django_mcp.extensions import Extension, installed
from django_mcp.tasks import execution
from tests.http_client import TIMEOUT, connect, message
from tests.processes import ROOT
from tests.running_site import EXAMPLE_SITE, create_tables, running_site
from tests.waiting import wait_until

ASGI = "example_site.asgi:application"
WSGI = "example_site.wsgi:application"
BIND = ("--bind", "127.0.0.1:{port}")
SERVERS = {
    "uvicorn": ["uvicorn", "--port", "{port}", ASGI],
    "daphne, which has no lifespan": EXAMPLE_SITE,
    "gunicorn": ["gunicorn", *BIND, WSGI],
    "gunicorn with two workers and threads": [
        *("gunicorn", *BIND, "--threads", "4", "--workers", "2", "--preload", WSGI)
    ],
}
CALLERS = 3
CALLS = 60
"""Calls before the process is told to stop."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite3"


def stored(database: Path, column: str = "outcome") -> list[Any]:
    """A column of the rows."""
    connection = sqlite3.connect(database)
    try:
        rows = connection.execute(f"SELECT {column} FROM django_mcp_calls_call").fetchall()
    finally:
        connection.close()
    return [value for (value,) in rows]


class Callers:
    """Threads that call a tool until the server has gone."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self.unanswered = 0
        self._port = port
        self._threads = [Thread(target=self._call) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _call(self) -> None:
        body, headers = message("last_calculation", {})
        with connect(self._port) as client:
            while True:
                try:
                    response = client.post("/mcp", content=body, headers=headers)
                except httpx.TransportError:
                    self.unanswered += 1
                    return
                if "result" not in response.text:
                    return
                self.answered += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join(TIMEOUT)


@pytest.mark.parametrize("name", SERVERS)
def test_each_answered_call_is_a_row_after_a_stop(name: str, database: Path) -> None:
    with running_site(SERVERS[name], EXAMPLE_DATABASE=str(database)) as site:
        callers = Callers(site.port)
        wait_until(lambda: callers.answered >= CALLS)
        site.process.terminate()
        site.process.process.wait(TIMEOUT)
        callers.join()
    rows = len(stored(database))
    # The response to a call may be lost when its connection is closed.
    assert callers.answered <= rows <= callers.answered + callers.unanswered
    assert callers.answered >= CALLS


def test_each_call_over_stdio_is_a_row_with_the_bytes_that_were_sent(database: Path) -> None:
    environment = {**os.environ, "EXAMPLE_DATABASE": str(database)}
    create_tables(Path(sys.executable), environment)
    body, _headers = message("last_calculation", {})
    lines = "".join(f"{json.dumps({**json.loads(body), 'id': n})}\n" for n in range(20))
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp_stdio"],
        input=lines,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    sent = done.stdout.splitlines()
    assert len(sent) == 20, done.stderr
    sizes = [len(line.encode()) for line in sent]
    assert sorted(stored(database, "response_size")) == sorted(sizes)


def test_call_of_a_command_is_a_row(database: Path) -> None:
    environment = {**os.environ, "EXAMPLE_DATABASE": str(database)}
    create_tables(Path(sys.executable), environment)
    command = [sys.executable, "manage.py", "mcp_call", "convert_units", '{"unit": 1}']
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert stored(database) == ["error"]


@pytest.mark.django_db(transaction=True)
def test_worker_writes_the_call_of_a_task_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The child of a Celery worker ends without the functions of ``atexit``."""
    written: list[int] = []

    async def run(task_id: str) -> None:
        written.append(-1)

    async def write() -> None:
        written.append(len(written))

    monkeypatch.setattr(execution, "run", run)
    with installed(Extension(name="com.example/written", stop=write)):
        execution.run_in_new_loop("a task")
    assert written == [-1, 1]
