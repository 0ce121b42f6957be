"""Measure one request in this process, without a server: run by its path, in any checkout.

The command is ``in_process.py module:application``, with the request as JSON on standard input. It
prints what ``meters/in_process.py`` reads. Functions are counted once the request was answered
before, so that the counts are the same in each run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib import import_module
from statistics import median
from typing import Any

WARM_UP = 200
EVICTING = bytes(4 * 1024 * 1024)
"""More than the first two levels of the caches of a core: copying it evicts what they had."""
_evicted = bytearray(len(EVICTING))


class Request:
    """A POST, to be sent to an ASGI application as often as needed."""

    def __init__(self, application: Any, path: str, headers: dict[str, str], body: str) -> None:
        self.application = application
        self.body = body.encode()
        sent = {"host": "127.0.0.1", **headers, "content-length": str(len(self.body))}
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": pairs,
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8000),
        }
        self.messages: list[dict[str, Any]] = []
        self.is_received = False

    async def send(self) -> None:
        """Send it, and keep the messages of the response."""
        self.messages = []
        self.is_received = False
        # The application may change its scope.
        await self.application(dict(self.scope), self._receive, self._collect)

    async def _receive(self) -> dict[str, Any]:
        if self.is_received:
            # The client stays: what waits for its disconnect is cancelled at the end of a call.
            await asyncio.get_running_loop().create_future()
        self.is_received = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def _collect(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def response(self) -> dict[str, Any]:
        """Return the last response as ``Answer.to_json`` writes it."""
        start = self.messages[0]
        parts = [message.get("body", b"").decode() for message in self.messages[1:]]
        return {
            "status": start["status"],
            "headers": [[name.decode(), value.decode()] for name, value in start["headers"]],
            "parts": [part for part in parts if part],
            "event": None,
        }


async def counted(request: Request) -> dict[str, int]:
    """Count the functions that one request calls, of Python and of C."""
    called: list[Any] = []

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            called.append(frame.f_code)
        elif event == "c_call":
            called.append(getattr(function, "__qualname__", function))

    sys.setprofile(note)
    try:
        await request.send()
    finally:
        sys.setprofile(None)
    return {"functions": len(set(called)), "calls": len(called)}


async def timed(request: Request, repeats: int, *, evicts: bool) -> float:
    """Return the median of the microseconds of a request."""
    durations = []
    for _ in range(repeats):
        if evicts:
            _evicted[:] = EVICTING
        began = time.perf_counter_ns()
        await request.send()
        durations.append(time.perf_counter_ns() - began)
    return median(durations) / 1000


async def main(application: str, repeats: int) -> None:
    module, _, name = application.partition(":")
    request = Request(getattr(import_module(module), name), **json.load(sys.stdin))
    for _ in range(WARM_UP):
        await request.send()
    measured = {
        "answer": request.response(),
        **await counted(request),
        "warm": await timed(request, repeats, evicts=False),
        "evicted": await timed(request, repeats, evicts=True),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
