"""Handlers that raise what controls Python itself: an iterator, an event loop, the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_mcp import Frame, Server, registry
from django_mcp.core.dispatch.invocation import raise_outcome
from django_mcp.core.protocol.errors import McpError
from django_mcp.testing import Client
from tests.core.dispatch.control_exceptions import CONTROL
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]

TIMEOUT = SECONDS


KINDS = ["tool", "tool_async", "resource", "resource_async", "prompt", "prompt_async", "completion"]
MESSAGES = {
    "resource": "The resource could not be read",
    "prompt": "The prompt failed",
    "completion": "Internal error",
}


def server_raising(error: type[BaseException]) -> Server:
    """A server whose handlers raise ``error``, but for the tool ``good``."""
    server = Server("control")

    def fail() -> str:
        if error is StopIteration:
            return next(name for name in ("ann", "bob") if name == "eve")
        raise error

    def names(value: str) -> list[str]:
        return [fail()]

    @server.tool
    def good() -> str:
        return "good"

    @server.tool
    def tool() -> str:
        return fail()

    @server.tool
    async def tool_async() -> str:
        return fail()

    @server.resource("control://sync")
    def resource() -> str:
        return fail()

    @server.resource("control://async")
    async def resource_async() -> str:
        return fail()

    @server.prompt(complete={"name": names})
    def prompt(name: str) -> str:
        return fail()

    @server.prompt
    async def prompt_async(name: str) -> str:
        return fail()

    return server


async def use(client: Client, kind: str) -> Any:
    if kind.startswith("tool"):
        return await client.call_tool(kind)
    if kind.startswith("resource"):
        uri = "control://async" if kind.endswith("async") else "control://sync"
        return await client.read_resource(uri)
    if kind.startswith("prompt"):
        return await client.get_prompt(kind, {"name": "ann"})
    return await client.complete("prompt", "name", "a")


@pytest.mark.parametrize("execution", ["threads", "thread_sensitive"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", CONTROL)
async def test_call_fails_and_the_next_one_works(
    error: type[BaseException], kind: str, execution: Any
) -> None:
    server = server_raising(error)
    options = {"sync_execution": execution, "raise_exceptions": False}
    async with asyncio.timeout(TIMEOUT), Client(server, **options) as client:
        if kind.startswith("tool"):
            assert (await use(client, kind))["isError"]
        else:
            with pytest.raises(McpError, match=MESSAGES[kind.removesuffix("_async")]):
                await use(client, kind)
        assert (await client.call_tool("good")).text == "good"


@pytest.mark.parametrize("tool", ["tool", "tool_async"])
@pytest.mark.parametrize("error", [StopIteration, SystemExit])
async def test_log_says_which_handler_ended_with_it(
    error: type[BaseException], tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server_raising(error), raise_exceptions=False) as client:
        assert (await client.call_tool(tool))["isError"]
    name = f"{__name__}.server_raising.<locals>.{tool}"
    assert f"RuntimeError: {name} ended with {error.__name__}" in caplog.text
    assert "_invoke at" not in caplog.text


async def test_coroutine_that_runs_a_handler_can_be_closed() -> None:
    """As an event loop that ends closes what still runs: that is no error of the handler."""
    frame = Frame()

    async def running() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as raised:
            raise_outcome(raised, frame)

    coroutine = running()
    coroutine.send(None)
    coroutine.close()


@pytest.mark.parametrize("tool", ["tool", "tool_async"])
def test_command_reports_an_iterator_that_is_empty(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_raising(StopIteration)
    monkeypatch.setattr(registry.registered, "servers", {"control": server})
    with pytest.raises(CommandError):
        call_command("mcp_call", tool, server="control")


CTRL_C = """
import asyncio, os, signal
import django
from django.conf import settings
# A shell that starts the tests in the background has the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.configure(
    DJANGO_MCP={"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    SECRET_KEY="only for this test",
)
django.setup()
from django_mcp import Server
from django_mcp.testing import Client

server = Server("control")

@server.tool
async def interrupted() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "went on"

async def main():
    async with Client(server) as client:
        print(await client.call_tool("interrupted"))

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""


def test_ctrl_c_of_a_user_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout == ""
