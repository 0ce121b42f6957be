"""Transcripts of conversations in each revision, readable without Python.

``> `` starts a line that the client writes, and ``< `` one that the server writes, a message each;
indented lines continue it. ``{...}`` on a line of its own includes another transcript.
``<name>`` is a placeholder for an unpredictable string, the same at each occurrence. ``=`` closes
the client's side, which is closed at the end at the latest. The server must write nothing else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.pubsub import announcements
from django_mcp.testing.asgi import TIMEOUT
from tests import spec_schemas
from tests.conversations.sample_server import desk
from tests.conversations.transcripts import (
    END,
    SERVER,
    TRANSCRIPTS,
    Placeholders,
    read,
)
from tests.memory_stores import MEMORY
from tests.spec import spec
from tests.wire.stdio import StdioClient

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture(autouse=True)
def _notifications_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send each notification at once, also if it repeats one of the last moment."""
    monkeypatch.setattr(announcements, "MERGE_INTERVAL", 0.0)


async def replay(path: Path) -> None:
    """Write the client's messages, and compare those of the server."""
    server, known = desk(), Placeholders()
    server.notify_lists_on_initialize = True
    pipe = StdioClient(server)
    serving = pipe.serve()
    methods: dict[str, str] = {}
    for line in read(path):
        if line.side == SERVER:
            received = await pipe.message()
            known.learn(line.message, received)
            assert received == known.fill(line.message), line.where
            _check_schema(path.parent.name, received, methods)
        elif line.side == END:
            pipe.close()
        else:
            _record_methods(methods, line.message)
            pipe.send(known.fill(line.message))
    pipe.close()
    async with asyncio.timeout(TIMEOUT):
        await serving
    assert not pipe.has_message, await pipe.message()


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
