"""Server-sent events as bytes (WHATWG HTML, section 9.2), and event ids that name a stream."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEEP_ALIVE = b":\n\n"
"""An empty comment, which clients ignore."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_INVALID_IN_FIELD = re.compile(r"[\0\r\n]")
_EVENT_ID = re.compile(r"([A-Za-z0-9_~.-]{1,2200})\.(0|[1-9][0-9]{0,18})")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
# Names of streams contain ids of requests, of up to MAX_IDENTIFIER escaped characters in Base64.
_STREAM = re.compile(r"[A-Za-z0-9_~.-]{1,2200}")

# Stores keep sequences in 64-bit columns, so a number beyond that was never issued.
_MAX_SEQUENCE = 2**63 - 1


def event(
    data: bytes | str, *, id: str | None = None, retry: int | None = None, event: str | None = None
) -> bytes:
    """Return one event. JSON has no raw newlines, so it takes one ``data`` line."""
    raw = data.encode() if isinstance(data, str) else data
    head = b""
    if id is not None or retry is not None or event is not None:
        head = _fields(id, retry, event)
    if b"\n" in raw or b"\r" in raw:
        return head + b"".join(b"data: %b\n" % line for line in _LINE_END.split(raw)) + b"\n"
    return head + b"data: " + raw + b"\n\n"


def priming(id: str, *, retry: int | None = None) -> bytes:
    """Return the first event of a resumable stream: an id to resume from, and empty data."""
    return _fields(id, retry, None) + b"data:\n\n"


def retry(milliseconds: int) -> bytes:
    """Return a reconnection time without an event: the client keeps its last event id."""
    return _fields(None, milliseconds, None) + b"\n"


@dataclass(frozen=True, slots=True)
class EventId:
    """The position of an event, ``stream.sequence``; streams have unique names in their session."""

    stream: str
    sequence: int

    def __post_init__(self) -> None:
        if not _STREAM.fullmatch(self.stream):
            allowed = "1 to 2200 of A-Z a-z 0-9 _ ~ . -"
            raise ValueError(f"A stream is named by {allowed}: {self.stream!r}")
        if not 0 <= self.sequence <= _MAX_SEQUENCE:
            raise ValueError(f"A sequence is an integer from 0 to 2**63 - 1: {self.sequence!r}")

    def __str__(self) -> str:
        return f"{self.stream}.{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """Return the id in ``text``, or None if the server never issues such an id."""
        match = _EVENT_ID.fullmatch(text)
        if match is None or int(match[2]) > _MAX_SEQUENCE:
            return None
        return cls(match[1], int(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as a client receives it; ``id`` is the last event id, as in browsers."""

    data: str
    event: str = "message"
    id: str = ""
    retry: int | None = None


class Parser:
    """Parse events from chunks of bytes; ``id`` and ``retry`` persist between events."""

    def __init__(self) -> None:
        self.id = ""
        self.retry: int | None = None
        self._rest = b""
        self._after_cr = False
        self._at_start = True
        self._data: list[str] = []
        self._event = ""
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        return [event for event in map(self._parse, self._lines(chunk)) if event is not None]

    def _lines(self, chunk: bytes) -> list[str]:
        if not chunk:
            return []
        # A CR ends its line at once; an LF at the start of the next chunk belongs to it.
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        if lines and self._at_start:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        return [line.decode("utf-8", "replace") for line in lines]

    def _parse(self, line: str) -> Event | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.id = value
        elif name == "retry" and _MILLISECONDS.fullmatch(value):
            self.retry = self._retry = int(value)
        return None

    def _complete(self) -> Event | None:
        data = self._data
        name = self._event
        retry = self._retry
        self._data = []
        self._event = ""
        self._retry = None
        if not data:
            return None
        return Event(data="\n".join(data), event=name or "message", id=self.id, retry=retry)


def _fields(id: str | None, retry: int | None, event: str | None) -> bytes:
    for name, value in (("event", event), ("id", id)):
        if value is not None and _INVALID_IN_FIELD.search(value):
            raise ValueError(f"The {name} of an event holds no NUL, CR or LF: {value!r}")
    if retry is not None and retry < 0:
        raise ValueError(f"retry is a time in milliseconds, 0 or more: {retry!r}")
    fields = (("event", event), ("id", id), ("retry", retry))
    return "".join(f"{name}: {value}\n" for name, value in fields if value is not None).encode()
