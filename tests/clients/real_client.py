"""A client made by others, which runs in a process of its own and does what a test says.

It knows nothing of MCP: what is asked and answered passes through as the SDK understood it.
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

from tests.running_site import ROOT

Json = dict[str, Any]
TIMEOUT = 20
"""Seconds until a client that says nothing counts as stuck."""


class SdkError(Exception):
    """The SDK raised an error, mostly because the server answered with one."""

    def __init__(self, error: Json) -> None:
        super().__init__(error)
        self.error = error

    @property
    def code(self) -> int | None:
        """The JSON-RPC error code; None if the SDK found something itself."""
        return self.error.get("code")

    @property
    def message(self) -> str:
        """What the server says of the error."""
        return str(self.error.get("message"))


@dataclass(slots=True)
class RealClient:
    """The process, and the lines it says."""

    _process: subprocess.Popen[str]
    _said: Queue[Json] = field(default_factory=Queue)
    _passed: list[Json] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))
    connected: Json = field(default_factory=dict)
    """What the SDK knows of the server once it is connected."""

    def start(self, method: str, **params: Any) -> int:
        """Begin a request, and go on; its id is on every line which belongs to it."""
        identity = next(self._ids)
        self._tell({"id": identity, "method": method, "params": params})
        return identity

    def answer(self, question: Json, result: Json) -> None:
        """Answer what the server asked."""
        self._tell({"answer": question["question"], "result": result})

    def cancel(self, identity: int) -> None:
        """Give a request up."""
        self._tell({"cancel": identity})

    def asked(self) -> Json:
        """The next question of the server."""
        line = self._until(lambda line: "asked" in line or _is_outcome(line))[-1]
        assert "asked" in line, line
        return line

    def heard(self, method: str) -> Json:
        """The next notification of this method; one of no request may have come before."""
        for line in self._passed:
            if line["heard"] == method:
                self._passed.remove(line)
                return line
        line = self._until(lambda line: line.get("heard") == method)[-1]
        if line in self._passed:
            self._passed.remove(line)
        return line

    def until_done(self, *identities: int) -> list[Json]:
        """All lines up to the last outcome of these requests; an error raises `SdkError`."""
        waiting = set(identities)
        lines = self._until(lambda line: _is_outcome(line) and not _without(waiting, line))
        if "error" in lines[-1]:
            raise SdkError(lines[-1]["error"])
        return lines

    def conversation(self, method: str, **params: Any) -> list[Json]:
        """Everything that was said for a request, the result last."""
        return self.until_done(self.start(method, **params))

    def request(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        return self.conversation(method, **params)[-1]["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        """The result of a tool."""
        return self.request("tools/call", name=tool, arguments=arguments)

    def _until(self, found: Callable[[Json], bool]) -> list[Json]:
        lines = [self._next()]
        while not found(lines[-1]):
            lines.append(self._next())
        return lines

    def _next(self) -> Json:
        line = self._said.get(timeout=TIMEOUT)
        if "ended" in line:
            raise RuntimeError("The client has ended")
        if "heard" in line and "id" not in line:
            self._passed.append(line)
        return line

    def _tell(self, line: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"ended": True})


def _is_outcome(line: Json) -> bool:
    return bool(line.keys() & {"result", "error"})


def _without(waiting: set[int], line: Json) -> set[int]:
    waiting.discard(line["id"])
    return waiting


@contextmanager
def real_client(
    command: Sequence[str | Path], environment: Mapping[str, str]
) -> Iterator[RealClient]:
    """Starts a client, which ends by itself when it is told nothing more."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    client = RealClient(process)
    hearing = threading.Thread(target=client._hear)
    with process:
        hearing.start()
        try:
            client.connected = client._next()
            yield client
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            hearing.join()
