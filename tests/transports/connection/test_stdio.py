"""manage.py mcp_stdio in its own process, as desktop clients start it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from django_mcp.core.protocol import jsonrpc
from django_mcp.transports.connection.stdio import read_lines
from tests.spec import spec
from tests.waiting import SECONDS
from tests.wire.messages import CAPABILITIES, STATELESS, VERSION

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = SECONDS
SITE = "example_site.settings"
NOISY = "tests.transports.connection.noisy.settings"
INITIALIZE_PARAMS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "somebody", "version": "1"},
}
STATELESS_PARAMS = {"_meta": {VERSION: STATELESS, CAPABILITIES: {}}}


class Process:
    """A running server. Every line of its standard output must be a message."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.errors = ""

    def write(self, *lines: bytes | dict[str, Any]) -> None:
        """Write lines: bytes unchanged, other values as messages."""
        assert self._process.stdin is not None
        for line in lines:
            data = line if isinstance(line, bytes) else jsonrpc.encode(line) + b"\n"
            self._process.stdin.write(data)

    async def read(self) -> dict[str, Any]:
        """Return the next message."""
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            line = await self._process.stdout.readline()
        assert line.endswith(b"\n"), f"The server has exited: {await self.end()}, {self.errors}"
        message: dict[str, Any] = json.loads(line.decode())
        assert message["jsonrpc"] == "2.0"
        return message

    async def request(self, identity: int, method: str, **params: Any) -> dict[str, Any]:
        """Return the response to a request, after the messages before it."""
        self.write(jsonrpc.request(identity, method, params))
        while (answer := await self.read()).get("id") != identity:
            assert "method" in answer
        return answer

    async def call(self, identity: int, tool: str) -> dict[str, Any]:
        """Return the result of a tool call."""
        return await self.request(identity, "tools/call", name=tool)

    async def open(self) -> dict[str, Any]:
        """Open a session."""
        answer = await self.request(0, "initialize", **INITIALIZE_PARAMS)
        self.write(jsonrpc.notification("notifications/initialized"))
        result: dict[str, Any] = answer["result"]
        return result

    def stop(self) -> None:
        """Send SIGTERM, as clients do after a timeout."""
        self._process.send_signal(signal.SIGTERM)

    async def end(self) -> int:
        """Close the pipe; return the exit code after the process has exited without more output."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(TIMEOUT):
            rest, errors = await self._process.communicate()
        self.errors += errors.decode()
        for line in rest.splitlines():
            json.loads(line)
        assert self._process.returncode is not None
        return self._process.returncode


@asynccontextmanager
async def started(
    *arguments: str, settings: str = NOISY, **environment: str
) -> AsyncIterator[Process]:
    """A server process, which is killed if the test leaves it running."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "manage.py",
        "mcp_stdio",
        *arguments,
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings,
            "PYTHONUNBUFFERED": "",
            **environment,
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def call(identity: int, tool: str) -> dict[str, Any]:
    return jsonrpc.request(identity, "tools/call", {"name": tool})


@spec("LIFE-30", "T-STDIO-01", "T-STDIO-11", "SEC-07", "2026/STD-06")
async def test_stateless_and_session_requests_are_answered_until_stdin_closes() -> None:
    async with started(settings=SITE) as server:
        found = await server.request(1, "server/discover", **STATELESS_PARAMS)
        greeting = await server.open()
        listed = await server.request(2, "tools/list")
        stateless = await server.request(3, "tools/list", **STATELESS_PARAMS)
        code = await server.end()

    assert found["result"]["supportedVersions"] == [STATELESS]
    assert greeting["serverInfo"]["name"] == "example-site"
    names = [[tool["name"] for tool in answer["result"]["tools"]] for answer in (listed, stateless)]
    assert names[0] == names[1]
    assert "search_tickets" in names[0]
    assert code == 0


@spec("T-STDIO-03", "T-STDIO-04", "T-STDIO-06", "2026/STD-02", "2026/STD-03")
async def test_printed_output_goes_to_stderr() -> None:
    async with started("--server", "noisy", LC_ALL="C", PYTHONUTF8="0") as server:
        await server.open()
        answer = await server.call(1, "shout")
        code = await server.end()

    assert answer["result"]["content"][0]["text"] == "é€😀"
    assert code == 0
    for printed in (
        "settings: read",
        "mcp: imported",
        "shout: printed",
        "shout: flushed",
        "shout: written",
        "shout: written to the original",
        "shout: written to the descriptor",
        "shout: said by a child",
        "shout: logged",
    ):
        assert printed in server.errors


@spec("T-STDIO-09", "T-CUST-04", "AUTH-01")
async def test_process_id_and_environment_are_available_to_handlers() -> None:
    async with started("--server", "noisy", SHOP="corner") as server:
        await server.open()
        answer = await server.call(1, "environment")

    assert answer["result"]["content"][0]["text"] == f"{server.pid} corner"


@spec("T-STDIO-05")
async def test_malformed_lines_are_rejected_and_the_next_line_is_read() -> None:
    junk = [b"not JSON\n", b"\xff\xfe\n", b"[1]\n", b"{}\n", b'{"jsonrpc":"2.0","id":7}\n']

    async with started() as server:
        server.write(b"\n", b"   \n", *junk)
        errors = [await server.read() for _ in junk]
        answer = await server.request(1, "ping")
        server.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
        code = await server.end()

    assert [error["error"]["code"] for error in errors] == [-32700, -32700, *[-32600] * 3]
    assert [error.get("id") for error in errors] == [None] * 4 + [7]
    assert answer["result"] == {}
    assert code == 0


LONG = b'"' + b"x" * (5 * 1024 * 1024) + b'"'
CALL = b'"method": "tools/call", "params": {"id": 9, "text": %b, "more": [{"id": 8}]}' % LONG


async def test_oversized_line_is_rejected_with_its_id_and_the_next_line_is_read() -> None:
    lines = {
        b'{"jsonrpc": "2.0", "id": 3, %b}' % CALL: 3,
        b'{"id": "a", "jsonrpc": "2.0", %b}\r' % CALL: "a",
        b'{%b, "jsonrpc": "2.0", "id": 4}' % CALL: 4,
        b'{"jsonrpc": "2.0", %b}' % CALL: None,
        b'{"jsonrpc": "2.0", "id": "response", "result": {"text": %b}}' % LONG: None,
        LONG: None,
    }

    async with started() as server:
        errors = []
        for line in lines:
            server.write(line + b"\n")
            errors.append(await server.read())
        answer = await server.request(1, "ping")
        server.write(LONG)
        code = await server.end()

    assert [error.get("id") for error in errors] == list(lines.values())
    for error in errors:
        assert error["error"]["code"] == -32600
        assert "at most 4194304 bytes" in error["error"]["message"]
    assert answer["result"] == {}
    assert code == 0
    assert "Traceback" not in server.errors


@spec("2026/STD-05")
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_cancelled_request_is_not_answered(tool: str) -> None:
    async with started("--server", "noisy") as server:
        await server.open()
        server.write(call(1, tool))
        assert (await server.read())["method"] == "notifications/message"
        server.write(
            jsonrpc.notification("notifications/cancelled", {"requestId": 1, "reason": "enough"})
        )
        answer = await server.request(2, "ping")
        code = await server.end()

    assert answer["id"] == 2
    assert code == 0
    assert f"{tool}: ended because enough" in server.errors


@spec("2026/STD-06")
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_running_calls_are_cancelled_when_the_client_disconnects(tool: str) -> None:
    async with started("--server", "noisy") as server:
        await server.open()
        server.write(call(1, tool))
        await server.read()
        code = await server.end()

    assert code == 0
    assert f"{tool}: ended because The client has gone" in server.errors
    assert "Traceback" not in server.errors


@spec("LIFE-29", "LIFE-30", "2026/STD-07")
@pytest.mark.parametrize("tool", ["", "wait"])
async def test_sigterm_stops_the_process(tool: str) -> None:
    async with started("--server", "noisy") as server:
        await server.open()
        if tool:
            server.write(call(1, tool))
            await server.read()
        server.stop()
        code = await server.end()

    assert code == 0
    assert "Traceback" not in server.errors


@spec("PING-01", "2026/ST-02", "2026/STD-08")
async def test_calls_run_concurrently() -> None:
    async with started("--server", "noisy") as server:
        await server.open()
        server.write(call(1, "wait"), call(2, "block"))
        for _ in range(2):
            await server.read()
        answer = await server.call(3, "environment")

    assert "error" not in answer


async def test_unknown_server_name_is_reported_with_the_known_names() -> None:
    async with started("--server", "nobody", settings=SITE) as server:
        code = await server.end()

    assert code == 1
    assert "There is no MCP server 'nobody'; there are: mcp" in server.errors
    assert "Traceback" not in server.errors


class Ended(NamedTuple):
    """What a server process has left."""

    code: int | None
    output: bytes
    errors: bytes


async def run_to_end(stdin: Any, sent: bytes | None = None) -> Ended:
    """Run a server process with this standard input, which may be a pipe for what is sent."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("manage.py", "mcp_stdio"),
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": SITE},
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        output, errors = await process.communicate(sent)
    return Ended(process.returncode, output, errors)


async def test_file_as_stdin_is_read_like_a_pipe(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    requests = [jsonrpc.request(number, "server/discover", STATELESS_PARAMS) for number in (1, 2)]
    lines.write_bytes(b"".join(jsonrpc.encode(line) + b"\n" for line in requests))
    with lines.open("rb") as file:
        ended = await run_to_end(file)
    assert [json.loads(line)["id"] for line in ended.output.splitlines()] == [1, 2]
    assert ended.code == 0


async def test_server_without_a_standard_input_ends_at_once() -> None:
    ended = await run_to_end(asyncio.subprocess.DEVNULL)
    assert (ended.code, ended.output) == (0, b"")
    assert b"Traceback" not in ended.errors


async def test_lines_of_a_socket_end_when_its_peer_breaks_off() -> None:
    peer, own = socket.socketpair()
    own.send(b"what the peer does not read")
    with os.fdopen(own.detach(), "rb", buffering=0) as source:
        lines = read_lines(source, 1000)
        peer.send(b"{}\n")
        async with asyncio.timeout(TIMEOUT):
            assert await anext(lines) == b"{}\n"
            peer.close()
            assert await anext(lines, None) is None


async def test_session_in_one_write_is_answered_in_order() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    messages = [
        jsonrpc.request(1, "initialize", hello),
        jsonrpc.notification("notifications/initialized"),
        jsonrpc.request(2, "tools/list", {}),
    ]
    lines = b"".join(jsonrpc.encode(message) + b"\n" for message in messages)
    ended = await run_to_end(asyncio.subprocess.PIPE, lines)
    received = [json.loads(line) for line in ended.output.splitlines()]
    assert [line["id"] for line in received if "id" in line] == [1, 2]
    assert "tools" in next(line for line in received if line.get("id") == 2)["result"]


CLIENT = {"name": "pipe", "version": "1"}
