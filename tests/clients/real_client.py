"""A client of an official SDK in its own process, controlled by a test.

It does not depend on MCP: requests and responses are passed on as the SDK decoded them.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

from tests.processes import ROOT
from tests.waiting import SECONDS

Json = dict[str, Any]
TIMEOUT = SECONDS
"""Seconds without output after which a client has failed."""


class SdkError(Exception):
    """The SDK raised an error, usually because the server returned one."""

    def __init__(self, error: Json) -> None:
        super().__init__(error)
        self.error = error

    @property
    def code(self) -> int | None:
        """The JSON-RPC error code; None for an error of the SDK itself."""
        return self.error.get("code")

    @property
    def message(self) -> str:
        """The data of the server's error."""
        return str(self.error.get("message"))


@dataclass(slots=True)
class RealClient:
    """The process and its output lines."""

    _process: subprocess.Popen[str]
    _lines: Queue[Json] = field(default_factory=Queue)
    _notifications: list[Json] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))
    connected: Json = field(default_factory=dict)
    """The SDK's view of the server after connecting."""

    def start(self, method: str, **params: Any) -> int:
        """Start a request without waiting; its id is in every line about it."""
        request_id = next(self._ids)
        self._send({"id": request_id, "method": method, "params": params})
        return request_id

    def answer(self, request: Json, result: Json) -> None:
        """Answer a request of the server."""
        self._send({"answer": request["request"], "result": result})

    def cancel(self, request_id: int) -> None:
        """Cancel a request."""
        self._send({"cancel": request_id})

    def next_request(self) -> Json:
        """Return the next request of the server."""
        line = self._until(lambda line: "method" in line or _is_outcome(line))[-1]
        assert "method" in line, line
        return line

    def next_notification(self, method: str) -> Json:
        """Return the next notification of this method; one outside of a request may be older."""
        for line in self._notifications:
            if line["notification"] == method:
                self._notifications.remove(line)
                return line
        line = self._until(lambda line: line.get("notification") == method)[-1]
        if line in self._notifications:
            self._notifications.remove(line)
        return line

    def received_notifications(self) -> list[str]:
        """Return the methods of what was received outside of requests, and not read yet."""
        return [line["notification"] for line in self._notifications]

    def until_done(self, *request_ids: int) -> list[Json]:
        """Return all lines until these requests are complete; an error raises `SdkError`."""
        waiting = set(request_ids)
        lines = self._until(lambda line: _is_outcome(line) and not _without(waiting, line))
        if "error" in lines[-1]:
            raise SdkError(lines[-1]["error"])
        return lines

    def conversation(self, method: str, **params: Any) -> list[Json]:
        """Return all lines about a request, the result last."""
        return self.until_done(self.start(method, **params))

    def request(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        return self.conversation(method, **params)[-1]["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a tool call."""
        return self.request("tools/call", name=tool, arguments=arguments)

    def _until(self, is_last: Callable[[Json], bool]) -> list[Json]:
        lines = [self.next_line()]
        while not is_last(lines[-1]):
            lines.append(self.next_line())
        return lines

    def next_line(self) -> Json:
        """Return the next line of any kind."""
        line = self._lines.get(timeout=TIMEOUT)
        if "ended" in line:
            raise RuntimeError("The client has exited")
        if "notification" in line and "id" not in line:
            self._notifications.append(line)
        return line

    def _send(self, line: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"ended": True})


def _is_outcome(line: Json) -> bool:
    return bool(line.keys() & {"result", "error"})


def _without(waiting: set[int], line: Json) -> set[int]:
    waiting.discard(line["id"])
    return waiting


@contextmanager
def real_client(
    command: Sequence[str | Path], environment: Mapping[str, str]
) -> Iterator[RealClient]:
    """Start a client, which exits when its stdin is closed."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    client = RealClient(process)
    reader = threading.Thread(target=client._read)
    with process:
        reader.start()
        try:
            client.connected = client.next_line()
            yield client
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            reader.join()
