"""The site of this folder in processes of its own: over stdio, and behind uvicorn."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import migrated_file
from tests.processes import ROOT, ServerProcess, server
from tests.wire.asgi import Reply
from tests.wire.messages import ACCEPT, META, NEWEST_SESSION, STATELESS, Message

START = 10.0
TIMEOUT = 5.0
ANSWER = 30.0
"""Seconds for a line of a process, which may have to start first, on a busy machine."""


def environment(
    *, database: Any = None, layer: str | None = None, **settings: Any
) -> dict[str, str]:
    """The environment of a process, with entries of ``DJANGO_MCP``."""
    memory = {
        kind: {"BACKEND": f"django_mcp.stores.memory.Memory{name}Store"}
        for kind, name in (("sessions", "Session"), ("events", "Event"))
    }
    stores = {"STORES": memory} if database is None else {}
    described = {} if database is None else {"ROBUSTNESS_DATABASE": json.dumps(database)}
    if layer is not None:
        described["ROBUSTNESS_LAYER"] = layer
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.by_hand.site.settings",
        "PYTHONPATH": str(ROOT),
        "ROBUSTNESS_SETTINGS": json.dumps({**stores, **settings}),
        **described,
    }


class Stdio:
    """One process of ``mcp_stdio``, whose standard output is read when somebody waits for it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[Message] = []

    def write(self, *messages: Message) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self, timeout: float = ANSWER) -> Message:
        assert self.process.stdout is not None
        async with asyncio.timeout(timeout):
            line = await self.process.stdout.readline()
        assert line, f"The process has ended: {await self.ended()}"
        message: Message = json.loads(line)
        self.seen.append(message)
        return message

    async def until(self, *, id: Any = None, method: str | None = None) -> Message:
        """The next answer with this id, or notification of this method."""
        async with asyncio.timeout(ANSWER):
            while True:
                message = await self.read()
                if method is not None and message.get("method") == method:
                    return message
                if id is not None and "method" not in message and message.get("id") == id:
                    return message

    async def ask(self, id: Any, method: str, params: Any = None, **meta: Any) -> Message:
        self.write(request(id, method, params, **meta))
        return await self.until(id=id)

    async def initialize(self, version: str = NEWEST_SESSION, **capabilities: Any) -> None:
        hello = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        answer = await self.ask("hello", "initialize", hello)
        assert answer["result"]["protocolVersion"] == version
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        """Close standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self, timeout: float = TIMEOUT) -> int:
        """The exit code; raises TimeoutError."""
        assert self.process.stdout is not None
        async with asyncio.timeout(timeout):
            return await self.process.wait()


def request(
    id: Any, method: str, params: Any = None, *, version: str | None = None, **capabilities: Any
) -> Message:
    """A request; with the newest ``version`` it describes itself."""
    params = dict(params or {})
    if version == STATELESS:
        params["_meta"] = {
            META + "protocolVersion": version,
            META + "clientCapabilities": capabilities,
        }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, tool: str, arguments: Any = None, **meta: Any) -> Message:
    return request(id, "tools/call", {"name": tool, "arguments": arguments or {}}, **meta)


@asynccontextmanager
async def stdio(**settings: Any) -> AsyncIterator[Stdio]:
    """A process, which is killed if the test leaves it running."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "manage.py",
        "mcp_stdio",
        cwd=ROOT,
        env=environment(**settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Stdio(process)
    finally:
        if process.returncode is None:
            process.kill()
        with tempfile.TemporaryFile():
            await process.wait()


class Worker:
    """One uvicorn process."""

    def __init__(self, running: ServerProcess, http: httpx.AsyncClient) -> None:
        self.process = running.process
        self.url = f"http://127.0.0.1:{running.port}/mcp"
        self.port = running.port
        self.http = http
        self._running = running

    @property
    def log(self) -> str:
        return self._running.log

    def headers(self, session: str | None = None, **headers: str) -> dict[str, str]:
        named = {} if session is None else {"mcp-session-id": session}
        return {"content-type": "application/json", "accept": ACCEPT, **named, **headers}

    async def post(self, message: Any, session: str | None = None, **headers: str) -> Reply:
        async with asyncio.timeout(TIMEOUT):
            response = await self.http.post(
                self.url, json=message, headers=self.headers(session, **headers)
            )
        return Reply(status=response.status_code, headers=response.headers, body=response.content)

    async def initialize(self, version: str = NEWEST_SESSION, **capabilities: Any) -> str:
        hello = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        response = await self.post(request("hello", "initialize", hello))
        session = response.headers["mcp-session-id"]
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        return session

    @asynccontextmanager
    async def stream(
        self, message: Any, session: str | None = None, *, method: str = "POST", **headers: str
    ) -> AsyncIterator[Stream]:
        body = {} if message is None else {"json": message}
        sent = self.headers(session, **headers)
        if method == "GET":
            sent["accept"] = "text/event-stream"
        async with self.http.stream(method, self.url, headers=sent, **body) as response:
            yield Stream(response)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        self._running.kill()

    async def ended(self, timeout: float = TIMEOUT) -> int:
        return await asyncio.to_thread(self.process.wait, timeout)


class Stream:
    """A response as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.last_id: str | None = None
        self._lines = response.aiter_lines()

    async def message(self, timeout: float = TIMEOUT) -> Message | None:
        """The next message, or None at the end."""
        async with asyncio.timeout(timeout):
            async for line in self._lines:
                name, _, value = line.partition(":")
                if name == "id":
                    self.last_id = value.strip()
                if name == "data" and value.strip():
                    message: Message = json.loads(value)
                    return message
        return None


@asynccontextmanager
async def worker(
    *, database: Any = None, layer: str | None = None, **settings: Any
) -> AsyncIterator[Worker]:
    """A uvicorn process, which is killed if the test leaves it running."""
    command = ["uvicorn", "--port", "{port}", "tests.by_hand.site.asgi:application"]
    described = environment(database=database, layer=layer, **settings)
    served = server(command, environment=described)
    running = await asyncio.to_thread(served.__enter__)
    try:
        async with httpx.AsyncClient(timeout=START, trust_env=False, verify=False) as http:
            yield Worker(running, http)
    finally:
        running.kill()
        await asyncio.to_thread(served.__exit__, None, None, None)


async def migrate(database: Any) -> None:
    """Make the tables of the site, whose apps are among those of the example site."""
    await asyncio.to_thread(migrated_file.copy, Path(database["NAME"]))
