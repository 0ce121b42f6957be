"""Output validation over each transport: an invalid message is not sent."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_mcp import Frame, Server, registry
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure


async def invalidate_result(frame: Frame, call_next: Any) -> Any:
    """Middleware that removes a required member."""
    result, after = await call_next(frame)
    if frame.request is not None and frame.request.method == "tools/call":
        result = {"isError": "perhaps"}
    return result, after


def careless() -> Server:
    server = Server("careless", middleware=[invalidate_result])

    @server.tool
    def greet() -> str:
        return "Hello"

    @server.tool
    def report(frame: Frame) -> str:
        frame.client.notify("notifications/progress", {"progress": "half"})
        return "Reported"

    return server


async def test_invalid_result_returns_internal_error_and_logs_the_violations(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_for(careless(), validation="strict") as client:
        with caplog.at_level(logging.ERROR, "django_mcp"):
            error = await error_of(client.call_tool("greet"))

    assert error.code == -32603
    assert "perhaps" not in str(error)
    assert "content is missing" in caplog.text
    assert "isError is neither true nor false" in caplog.text


async def test_invalid_result_is_sent_unchanged_when_validation_is_off(mcp_version: str) -> None:
    async with Client(careless(), version=mcp_version, validation="off") as client:
        answer = await client.connection.request(client.message("tools/call", {"name": "greet"}))

    assert answer["result"]["isError"] == "perhaps"


async def test_invalid_notification_is_logged_and_not_sent(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("careless")

    @server.tool
    def report(frame: Frame) -> str:
        frame.client.notify("notifications/progress", {"progress": "half"})
        return "Reported"

    async with client_for(server) as client:
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await client.call_tool("report")

    assert client.progress == []
    assert "progressToken is missing" in caplog.text


@pytest.mark.parametrize(
    ("debug", "keys", "strict"),
    [
        (False, {}, False),
        (True, {}, True),
        (False, {"VALIDATE_OUTPUT": "strict"}, True),
        (True, {"VALIDATE_OUTPUT": "off"}, False),
    ],
)
def test_output_validation_defaults_to_the_debug_setting(
    configure: Configure, settings: Any, debug: bool, keys: dict[str, Any], strict: bool
) -> None:
    settings.DEBUG = debug
    configure(**keys)

    assert registry.configure(Server("any")).options.strict is strict
