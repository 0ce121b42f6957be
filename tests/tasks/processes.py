"""The processes of a site whose tasks run in workers: web processes, workers and a database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.processes import ROOT, kill_group, spawn
from tests.running_site import RunningSite, serving
from tests.tasks.postgres import PostgreSQL
from tests.waiting import SECONDS, wait_until
from tests.wire.messages import CAPABILITIES, JSON, STATELESS, VERSION

PATIENCE = SECONDS
LEASE = 20.0
PYTHON = Path(sys.executable)
DB_WORKER = ("manage.py", "db_worker", "--no-reload", "--interval", "0.1")


class Site:
    """The environment of all processes: a database, a folder for notes."""

    def __init__(self, database: PostgreSQL, folder: Path, **settings: str) -> None:
        self.database = database
        self.folder = folder
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.tasks.site.settings",
            "TASKS_PGPORT": str(database.port),
            "TASKS_FOLDER": str(folder),
            "TASKS_LEASE": str(LEASE),
            **settings,
        }

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    @contextmanager
    def worker(self, command: Sequence[str] = DB_WORKER) -> Iterator[subprocess.Popen[bytes]]:
        """A process that runs tasks; its children end with it."""
        log = self.folder / "worker.log"
        process = spawn([str(PYTHON), *command], log, ROOT, env=self.environment)
        try:
            yield process
        finally:
            kill_group(process)

    @contextmanager
    def web(self) -> Iterator[Web]:
        """A process that answers clients."""
        served = serving("example_site.asgi:application", PYTHON, ROOT, self.environment)
        with served as site:
            yield Web(site)


class Web:
    """One web process, as a client of the extension uses it."""

    def __init__(self, site: RunningSite) -> None:
        self.url = site.url("/jobs")
        self._ids = count(1)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The message that answers a request."""
        answer: dict[str, Any] = self.post(method, **params).json()
        return answer

    def post(self, method: str, **params: Any) -> httpx.Response:
        """The response to a request."""
        extensions: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        meta = {VERSION: STATELESS, CAPABILITIES: {"elicitation": {}, **extensions}}
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        headers = {**JSON, "mcp-protocol-version": STATELESS, "mcp-method": method}
        headers["mcp-name"] = params.get("name") or params.get("taskId", "")
        body = {**message, "params": {**params, "_meta": meta}}
        return httpx.post(self.url, json=body, headers=headers, timeout=PATIENCE, verify=False)

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        answer = self.send(method, **params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def create(self, tool: str, **arguments: Any) -> str:
        return str(self.request("tools/call", name=tool, arguments=arguments)["taskId"])

    def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Poll until the task has one of the statuses; the site may fail meanwhile."""

        def poll() -> dict[str, Any] | None:
            try:
                task = self.request("tasks/get", taskId=task_id)
            except (httpx.HTTPError, AssertionError):
                return None
            return task if task["status"] in statuses else None

        return wait_until(poll, f"The task is {statuses}", seconds=PATIENCE, pause=0.1)


def cancel_loop(site: Site, web: Web) -> tuple[str, str, str]:
    """Cancel a synchronous loop in a worker that runs one task at a time.

    Return the status of its task, that of the next one, which the worker takes when the loop has
    ended, and the last line that the loop has written.
    """
    task_id = web.create("loop")
    wait_until(lambda: site.lines("loop"))
    web.request("tasks/cancel", taskId=task_id)
    status = web.request("tasks/get", taskId=task_id)["status"]
    done = web.until(web.create("process", seconds=0), "completed", "failed")
    return status, done["status"], site.lines("loop")[-1]


def has_reported(web: Web, task_id: str) -> dict[str, Any]:
    """Wait until the task has a status message."""

    def poll() -> dict[str, Any] | None:
        task = web.request("tasks/get", taskId=task_id)
        return task if "statusMessage" in task else None

    return wait_until(poll, "The task has a message", seconds=PATIENCE, pause=0.1)


def text_of(task: dict[str, Any]) -> str:
    return str(task["result"]["content"][0]["text"])
