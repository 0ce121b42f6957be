"""The log filter that says to which call a record belongs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from django_mcp import Frame, Server
from django_mcp.log import RequestFilter, print_calls
from tests.around.requests import call

logger = logging.getLogger("tests.shop")


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The records of a handler with the filter."""
    request_filter = RequestFilter()
    caplog.set_level("INFO")
    # The handler is that of all tests of this process.
    caplog.handler.addFilter(request_filter)
    yield caplog
    caplog.handler.removeFilter(request_filter)


@pytest.fixture
def server() -> Server:
    """Tools which log."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    def in_thread(frame: Frame) -> str:
        logger.info("selling")
        return "done"

    @server.tool
    async def in_loop() -> str:
        logger.info("selling")
        return "done"

    return server


def facts(records: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str, str]]:
    return [
        (each.request_id, each.mcp_method, each.mcp_name)  # type: ignore[attr-defined]
        for each in records.records
        if each.name == name
    ]


@pytest.mark.parametrize("tool", ["in_thread", "in_loop"])
async def test_records_of_a_handler_have_the_id_and_name_of_the_call(
    server: Server, records: pytest.LogCaptureFixture, tool: str
) -> None:
    await call(server, tool)
    await call(server, tool, x_request_id="abc\n123")
    assert facts(records, "tests.shop") == [
        ("7", "tools/call", tool),
        ("'abc\\n123'", "tools/call", tool),
    ]


async def test_call_log_has_the_id_of_the_message(
    server: Server, records: pytest.LogCaptureFixture
) -> None:
    await call(server, "in_loop")
    found = [each for each in records.records if each.name == "django_mcp.calls"]
    assert [each.mcp_request_id for each in found] == ["7"]  # type: ignore[attr-defined]
    assert [each.mcp_name for each in found] == ["in_loop"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("level", "handlers"), [(logging.NOTSET, 1), (logging.WARNING, 0)])
def test_calls_are_printed_unless_their_logger_is_configured(
    monkeypatch: pytest.MonkeyPatch, level: int, handlers: int
) -> None:
    # A logger without parents: those of pytest have handlers.
    calls = logging.Logger("calls", level)
    with monkeypatch.context() as patched:
        patched.setattr(logging, "getLogger", lambda name: calls)
        print_calls()
        print_calls()
    assert len(calls.handlers) == handlers
    assert calls.isEnabledFor(logging.INFO) == bool(handlers)


def test_records_outside_of_handlers_have_placeholders(records: pytest.LogCaptureFixture) -> None:
    logger.info("starting")
    assert facts(records, "tests.shop") == [("-", "-", "-")]
