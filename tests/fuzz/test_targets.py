"""A fuzz run finds the faults that it is for."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Frame
from django_mcp.core.server.components import ComponentCollection
from tests.fuzz.site import SETTINGS
from tests.fuzz.targets import Fault, Input, Site

if TYPE_CHECKING:
    from pytest_django import Settings

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
HEADERS = {
    "host": "testserver",
    "accept": "*/*",
    "content-type": "application/json",
    "mcp-session-id": "<session>",
}
OVER_HTTP: Input = {
    "target": "http",
    "method": "POST",
    "headers": [*HEADERS.items()],
    "body": [PING],
}
OVER_STDIO: Input = {"target": "stdio", "lines": [[PING]]}


@pytest.fixture(autouse=True)
def fuzzed(settings: Settings) -> None:
    settings.DJANGO_MCP = SETTINGS


async def fail(frame: Frame, call_next: Any) -> Any:
    if frame.request is not None and frame.request.method == "ping":
        raise LookupError("a fault of the server")
    return await call_next(frame)


async def block(frame: Frame, call_next: Any) -> Any:
    if frame.request is not None and frame.request.method == "ping":
        ends = time.thread_time() + 0.15
        while time.thread_time() < ends:
            pass
    return await call_next(frame)


@pytest.mark.parametrize("given", [OVER_HTTP, OVER_STDIO], ids=["http", "stdio"])
async def test_exception_of_the_server_is_a_fault(given: Input) -> None:
    async with Site() as site:
        site.server.middleware += (fail,)

        with pytest.raises(Fault, match=r"(?s)internal error|Logged.*a fault of the server"):
            await site.play(given)


@pytest.mark.parametrize("given", [OVER_HTTP, OVER_STDIO], ids=["http", "stdio"])
async def test_request_that_holds_the_event_loop_is_a_fault(given: Input) -> None:
    async with Site() as site:
        site.server.middleware += (block,)

        with pytest.raises(Fault, match="The event loop was held for "):
            await site.play(given)


async def test_request_after_which_others_fail_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site() as site:

        def broken(self: ComponentCollection, kind: str, key: str) -> None:
            site.server.components.remove("tool", "add")

        monkeypatch.setattr(ComponentCollection, "find", broken)

        with pytest.raises(Fault):
            await site.play(OVER_STDIO)
