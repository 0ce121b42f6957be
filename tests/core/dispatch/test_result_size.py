"""MAX_RESULT_SIZE: what is larger is an error that says so, and a line in the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Response, Server
from django_mcp.core.components.base import UnserializableResult
from django_mcp.testing import Client, ErrorResponse

if TYPE_CHECKING:
    from pytest_django import Settings

LIMIT = 1_000
REMEDY = "Ask for less: by a filter, fewer fields or a smaller page."
VALUES: dict[str, Any] = {
    "text": "a" * (LIMIT + 1),
    "characters": "ü" * (LIMIT // 2 + 1),
    "structure": {"a": "a" * LIMIT},
    "file": Response.file(b"\xff" * LIMIT, mime_type="image/png"),
    "several": Response.tool().text("a" * 600).text("a" * 600),
}


@pytest.fixture(autouse=True)
def _limit(settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MAX_RESULT_SIZE": LIMIT}


@pytest.fixture
def server() -> Server:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def give(what: str) -> Any:
        return VALUES[what]

    @server.tool
    def listed() -> list[dict[str, Any]]:
        return [{"a": "a" * LIMIT}]

    @server.tool
    def fitting() -> str:
        return "a" * LIMIT

    server.resource("desk://it", name="it")(lambda: "a" * (LIMIT + 1))
    server.prompt(name="it")(lambda: "a" * (LIMIT + 1))
    return server


@pytest.mark.parametrize("what", [*VALUES])
@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28"])
async def test_large_result_of_a_tool_is_an_error_for_the_model(
    server: Server, what: str, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server, version=version, transport="http") as client:
        with caplog.at_level(logging.WARNING, "django_mcp"):
            result = await client.call_tool("give", {"what": what})
    assert result["isError"] is True
    assert "1,000 are the most that this server returns" in result.text
    assert REMEDY in result.text
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The tool give returned 1")
    assert line.endswith(" bytes, more than MAX_RESULT_SIZE (1000)")


async def test_result_of_a_declared_type_is_measured_and_one_that_fits_is_sent(
    server: Server,
) -> None:
    async with Client(server) as client:
        assert (await client.call_tool("listed"))["isError"] is True
        assert "isError" not in await client.call_tool("fitting")


class CountingFile:
    """An open file without an end, which knows how much of it has been read."""

    size = 0

    def read(self, size: int) -> bytes:
        self.size += size
        return bytes(size)


def test_file_is_read_as_far_as_a_result_can_hold_it() -> None:
    file = CountingFile()
    with pytest.raises(UnserializableResult, match="more bytes than MAX_RESULT_SIZE"):
        Response.file(file)
    assert file.size == LIMIT + 1


async def test_large_resource_and_prompt_are_protocol_errors(server: Server) -> None:
    async with Client(server) as client:
        with pytest.raises(ErrorResponse, match="The result has 1,001 bytes"):
            await client.read_resource("desk://it")
        with pytest.raises(ErrorResponse, match="The result has 1,001 bytes"):
            await client.get_prompt("it")
