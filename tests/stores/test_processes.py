"""Workers in several processes share the sessions in the database, without lost updates."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from django.db import connections

from django_mcp.stores.database import DatabaseSessionStore
from tests.stores.contracts import IDLE_TIMEOUT, a_session

ROOT = Path(__file__).parents[2]
CONNECTION_KEYS = ("ENGINE", "NAME", "HOST", "PORT", "USER", "PASSWORD")


async def test_concurrent_processes_lose_no_update(database: str) -> None:
    store = DatabaseSessionStore(idle_timeout=IDLE_TIMEOUT, limit_per_principal=5, using=database)
    await store.create(a_session())
    reached = connections[database].settings_dict
    described = {name: reached[name] for name in CONNECTION_KEYS if reached[name]}
    with ExitStack() as started:
        writers = [started.enter_context(writer_process(described, mark)) for mark in "ab"]
        for writer in writers:
            assert read_line(writer) == "ready"
        for writer in writers:
            write_line(writer, "go")
        assert [read_line(writer) for writer in writers] == ["done", "done"]
    session = await store.load(a_session().id)
    assert session is not None
    assert set(session.assigns) == {f"{mark}{number}" for mark in "ab" for number in range(50)}


@contextmanager
def writer_process(database: Mapping[str, Any], mark: str) -> Iterator[Popen[str]]:
    python = [sys.executable, "-m", "tests.stores.writer"]
    command = [*python, json.dumps(database), a_session().id, mark]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def read_line(writer: Popen[str]) -> str:
    assert writer.stdout is not None
    return writer.stdout.readline().strip()


def write_line(writer: Popen[str], line: str) -> None:
    assert writer.stdin is not None
    print(line, file=writer.stdin, flush=True)
