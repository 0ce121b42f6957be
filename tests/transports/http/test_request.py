"""What an Accept header accepts."""

from __future__ import annotations

from django_mcp.transports.http.request import accepts
from tests.rows import rows

STREAM = b"text/event-stream"


@rows(
    "header",
    [
        b"text/event-stream",
        b"Text/Event-Stream",
        b"text/html, text/event-stream;q=0.1",
        b"text/event-stream ; charset=utf-8 ; Q=1.000",
        b"text/*",
        b"*/*;q=0.001",
        b"*/*;q=0, text/*",
        b"text/*;q=0, text/event-stream",
        b"text/event-stream;q=0, text/event-stream;q=1",
        b", text/event-stream,,",
        b"text/event-stream;q=none",
    ],
)
def test_media_type_is_accepted(header: bytes) -> None:
    assert accepts(header, STREAM)


@rows(
    "header",
    [
        b"",
        b"application/json",
        b"text/event-stream-2",
        b"application/*",
        b"text/event-stream;q=0",
        b"text/event-stream; Q=0.000",
        b"*/*, text/event-stream;q=0",
        b"*/*, text/*;q=0",
        b"*",
    ],
)
def test_media_type_is_not_accepted(header: bytes) -> None:
    assert not accepts(header, STREAM)
