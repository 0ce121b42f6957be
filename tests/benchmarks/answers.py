"""HTTP responses: verified once, and given to the bare application, which repeats them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from tests.benchmarks.calls import Call

OF_THE_SERVER = frozenset({"date", "server", "connection", "transfer-encoding", "keep-alive"})
"""Headers that the ASGI server adds."""
STREAM = "text/event-stream"
TIMEOUT = 30.0


class MeasurementError(Exception):
    """A contestant failed or returned a wrong response, so it cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, headers and body; a stream has one body part for each event."""

    status: int
    headers: tuple[tuple[str, str], ...]
    parts: tuple[bytes, ...]
    event: bytes | None = None
    """The event to write later to an open stream; None if the response ends."""

    @property
    def pairs(self) -> list[tuple[bytes, bytes]]:
        """The headers in ASGI format."""
        return [(name.encode(), value.encode()) for name, value in self.headers]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages of the body."""
        if not dict(self.headers).get("content-type", "").startswith(STREAM):
            return [json.loads(b"".join(self.parts))]
        data = (line for part in self.parts for line in part.splitlines() if line[:5] == b"data:")
        return [json.loads(line[5:]) for line in data if line[5:].strip()]

    def to_json(self) -> bytes:
        """Encode the response for `from_json` in another process."""
        event = None if self.event is None else self.event.decode()
        return json.dumps(
            {
                "status": self.status,
                "headers": self.headers,
                "parts": [part.decode() for part in self.parts],
                "event": event,
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Answer:
        """Decode the output of `to_json`."""
        found = json.loads(data)
        event = found["event"]
        return cls(
            status=found["status"],
            headers=tuple((name, value) for name, value in found["headers"]),
            parts=tuple(part.encode() for part in found["parts"]),
            event=None if event is None else event.encode(),
        )

    def with_event(self, event: bytes) -> Answer:
        """Return this response as the start of a stream that stays open."""
        return replace(self, event=event)


def fetch(port: int, path: str, call: Call) -> Answer:
    """Read a complete response; raises MeasurementError if it is wrong."""
    with open_response(port, path, call) as response:
        body = response.read()
    return checked(call, _answer(response, tuple(_events(response, body))))


def fetch_stream(port: int, path: str, call: Call) -> Answer:
    """Read the first event of an open stream; raises MeasurementError if it is wrong."""
    with open_response(port, path, call) as response:
        return checked(call, _answer(response, (read_event(response),)))


@contextmanager
def open_response(port: int, path: str, call: Call) -> Iterator[HTTPResponse]:
    """The response to a call, after its status and headers were read."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("POST", path, call.body, call.all_headers)
        yield connection.getresponse()
    finally:
        connection.close()


def read_event(response: HTTPResponse) -> bytes:
    """Read up to the end of the next event that contains a message."""
    event = b""
    while line := response.readline():
        event += line
        if not line.strip() and b"data:" in event:
            return event
    raise MeasurementError(f"The stream ended with {event!r}")


def checked(call: Call, answer: Answer) -> Answer:
    """Return the response if it is the expected one; raises MeasurementError otherwise."""
    if answer.status != 200 or not call.is_expected(answer.messages):
        raise MeasurementError(f"{call.method}: {answer.status} {answer.parts[-1][:500]!r}")
    return answer


def _answer(response: HTTPResponse, parts: tuple[bytes, ...]) -> Answer:
    headers = [(name.lower(), value) for name, value in response.getheaders()]
    kept = tuple(pair for pair in headers if pair[0] not in OF_THE_SERVER)
    return Answer(status=response.status, headers=kept, parts=parts)


def _events(response: HTTPResponse, body: bytes) -> list[bytes]:
    if not (response.getheader("content-type") or "").startswith(STREAM):
        return [body]
    return [event + b"\n\n" for event in body.replace(b"\r\n", b"\n").split(b"\n\n") if event]
