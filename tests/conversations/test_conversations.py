"""Transcripts of conversations in each revision, readable without Python.

``> `` starts a line that the client writes, and ``< `` one that the server writes, a message each;
indented lines continue it. ``{...}`` on a line of its own includes another transcript.
``<name>`` is a placeholder for an unpredictable string, the same at each occurrence. ``=`` closes
the client's side, which is closed at the end at the latest. The server must write nothing else.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest

from django_mcp import registry
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.pubsub import coalescing
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.connection import stdio
from tests import spec_schemas
from tests.conversations.sample_server import desk
from tests.memory_stores import MEMORY
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*/*.txt"))
PLACEHOLDER = re.compile(r"<\w+>")

CLIENT, SERVER, END = "> ", "< ", "= "


@dataclass(frozen=True)
class Line:
    """One message of a transcript, and its location."""

    side: str
    message: Any
    where: str


def read(path: Path) -> Iterator[Line]:
    """The messages of a transcript, after those of the transcript that it includes."""
    texts: list[tuple[str, int]] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("{"):
            yield from read(path.parent / text.strip("{}"))
        elif text.startswith((CLIENT, SERVER)):
            texts.append((text, number))
        elif text == END.strip():
            texts.append((f"{END}null", number))
        elif text.startswith(" "):
            before, started = texts.pop()
            texts.append((f"{before} {text.strip()}", started))
        else:
            assert not text or text.startswith("#"), f"{path.name}:{number}: {text}"
    for text, number in texts:
        yield Line(text[:2], json.loads(text[2:]), f"{path.parent.name}/{path.name}:{number}")


@dataclass
class Pipes:
    """A conversation in this process, line by line."""

    answers: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    def write(self, line: bytes) -> int:
        self.answers.put_nowait(json.loads(line))
        return len(line)

    def flush(self) -> None:
        """Do nothing."""

    async def read(self) -> AsyncIterator[bytes]:
        while (line := await self.lines.get()) is not None:
            yield line


@dataclass
class Placeholders:
    """The values of the placeholders of a transcript."""

    values: dict[str, str] = field(default_factory=dict)

    def fill(self, written: Any) -> Any:
        """Replace the known placeholders of an expected message."""
        if isinstance(written, dict):
            return {name: self.fill(member) for name, member in written.items()}
        if isinstance(written, list):
            return [self.fill(item) for item in written]
        return self.values.get(written, written) if isinstance(written, str) else written

    def learn(self, written: Any, received: Any) -> None:
        """Store the values of the unknown placeholders."""
        if isinstance(written, dict) and isinstance(received, dict):
            for name in written.keys() & received.keys():
                self.learn(written[name], received[name])
        elif isinstance(written, list) and isinstance(received, list):
            for one, other in zip(written, received, strict=False):
                self.learn(one, other)
        elif isinstance(received, str) and PLACEHOLDER.fullmatch(str(written)):
            self.values.setdefault(written, received)


@pytest.fixture(autouse=True)
def _notifications_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send each notification at once, also if it repeats one of the last moment."""
    monkeypatch.setattr(coalescing, "INTERVAL", 0.0)


async def replay(path: Path) -> None:
    """Write the client's messages, and compare those of the server."""
    pipes, known = Pipes(), Placeholders()
    server = desk()
    server.notify_lists_on_initialize = True
    conversation = stdio.StdioConnection(registry.configure(server), cast(BinaryIO, pipes))
    serving = asyncio.ensure_future(conversation.serve(pipes.read()))
    methods: dict[str, str] = {}
    for line in read(path):
        if line.side == SERVER:
            async with asyncio.timeout(TIMEOUT):
                received = await pipes.answers.get()
            known.learn(line.message, received)
            assert received == known.fill(line.message), line.where
            _check_schema(path.parent.name, received, methods)
        elif line.side == END:
            pipes.lines.put_nowait(None)
        else:
            _record_methods(methods, line.message)
            pipes.lines.put_nowait(json.dumps(known.fill(line.message)).encode() + b"\n")
    pipes.lines.put_nowait(None)
    async with asyncio.timeout(TIMEOUT):
        await serving
    assert pipes.answers.empty(), pipes.answers.get_nowait()


def _record_methods(methods: dict[str, str], message: Any) -> None:
    for each in message if isinstance(message, list) else [message]:
        if isinstance(each, dict) and isinstance(each.get("method"), str):
            methods[str(each.get("id"))] = each["method"]


def _check_schema(version: str, received: Any, methods: dict[str, str]) -> None:
    """Validate a message against the official schema of the revision."""
    for each in received if isinstance(received, list) else [received]:
        spec_schemas.check(BY_VERSION[version], each, methods.get(str(each.get("id"))))


@spec(
    "LIFE-12",
    "LIFE-13",
    "LIFE-32",
    "RPC-11",
    "RPC-12",
    "RPC-B4",
    "PROG-06",
    "TOOL-18",
    "RES-06",
    "PROMPT-03",
    "PROMPT-09",
    "2026/VER-09",
    "2026/VER-10",
    "2026/DSC-05",
    "2026/ERR-07",
    "2026/META-04",
    "2026/TR-01",
    "2026/STD-08",
    "2026/MRTR-13",
    "2026/SUB-01",
    "2026/CAN-05",
    "2026/PRM-03",
)
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_server_messages_match_the_transcript(path: Path, settings: Settings) -> None:
    settings.DJANGO_MCP = {"STORES": MEMORY}

    await replay(path)


def test_every_revision_has_transcripts() -> None:
    assert {path.parent.name for path in TRANSCRIPTS} == {*BY_VERSION}
