"""The log records of calls and sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.dispatch import Signal

from django_mcp import Frame, Server, ToolError, signals
from django_mcp.core import log
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.testing import Client, ErrorResponse
from tests.waiting import SECONDS

SECRET = "xyzzy"


def server() -> Server:
    shop = Server("shop")

    @shop.tool
    async def echo(word: str, frame: Frame) -> str:
        if word == "wrong":
            raise ToolError("No such word")
        if word == "ask":
            return str(await frame.client.alist_roots())
        return word

    @shop.resource("shop://hours")
    def hours() -> str:
        return "9 to 5"

    @shop.prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    return shop


@pytest.fixture
def sent_signals() -> Iterator[list[tuple[Signal, dict[str, Any]]]]:
    """All messages that were sent."""
    sent: list[tuple[Signal, dict[str, Any]]] = []

    def receiver(signal: Signal, sender: Any, **facts: Any) -> None:
        sent.append((signal, facts))

    every = [signals.tool_called, signals.resource_read, signals.prompt_got]
    every += [signals.session_started, signals.session_ended]
    for signal in every:
        signal.connect(receiver)
    yield sent
    for signal in every:
        signal.disconnect(receiver)


@pytest.mark.parametrize(
    ("word", "outcome"),
    [(SECRET, "ok"), ("wrong", "error"), ("ask", "input_required"), (5, "error")],
)
async def test_tool_call_signal_carries_the_outcome(
    sent_signals: Any, word: Any, outcome: str
) -> None:
    async with Client(server(), roots=[]) as client:
        await client.send(
            client.message("tools/call", {"name": "echo", "arguments": {"word": word}})
        )
    ((signal, facts),) = sent_signals
    assert signal is signals.tool_called
    assert (facts["name"], facts["outcome"]) == ("echo", outcome)
    assert facts["duration"] >= 0
    assert SECRET not in str(facts)


async def test_call_that_leads_to_a_login_or_a_scope_is_challenged(sent_signals: Any) -> None:
    shop = Server("shop")
    shop.tool(name="own", permission="login_required", when_denied="challenged")(lambda: "")
    shop.tool(name="write", scopes={"write"})(lambda: "")
    async with Client(shop) as client:
        for name in ("own", "write", "unknown"):
            with pytest.raises(ErrorResponse):
                await client.call_tool(name)
    outcomes = [facts["outcome"] for _, facts in sent_signals]
    assert outcomes == ["challenged", "challenged", "client_error"]


async def test_cancelled_call_sends_a_signal(sent_signals: Any) -> None:
    shop, started = Server("shop"), asyncio.Event()

    @shop.tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async with Client(shop) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        async with asyncio.timeout(SECONDS):
            await started.wait()
        call.cancel()
        await asyncio.wait([call])
    assert [facts["outcome"] for _, facts in sent_signals] == ["cancelled"]


async def test_resource_read_and_prompt_get_send_signals(sent_signals: Any) -> None:
    async with Client(server()) as client:
        await client.read_resource("shop://hours")
        await client.get_prompt("greet", {"name": "Ada"})
        with pytest.raises(ErrorResponse):
            await client.get_prompt("nothing")
    assert [(facts.get("uri") or facts["name"], facts["outcome"]) for _, facts in sent_signals] == [
        ("shop://hours", "ok"),
        ("greet", "ok"),
        ("nothing", "client_error"),
    ]


@pytest.mark.django_db(transaction=True)
async def test_session_start_and_end_send_signals(sent_signals: Any) -> None:
    shop = server()
    async with Client(shop, version="2025-11-25", transport="http") as client:
        session_id = client.session_id
    (first, started), (last, ended) = sent_signals
    assert (first, last) == (signals.session_started, signals.session_ended)
    assert started["address"] == ended["address"]
    assert str(session_id) not in str(sent_signals)
    assert started["version"] == "2025-11-25"


async def test_call_log_has_one_record_per_call(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="django_mcp.calls"):
        async with Client(server()) as client:
            await client.call_tool("echo", {"word": SECRET})
    (record,) = [each for each in caplog.records if each.name == "django_mcp.calls"]
    assert record.getMessage().startswith("tools/call 'echo': ok after")
    assert vars(record)["mcp_outcome"] == "ok"
    assert SECRET not in str(vars(record))


@pytest.mark.django_db(transaction=True)
def test_mcp_prune_prints_the_number_of_deleted_rows() -> None:
    output = StringIO()
    call_command("mcp_prune", stdout=output)
    assert output.getvalue().startswith("Deleted 0 sessions, 0 events and 0 tasks.\n")


async def test_recorder_that_fails_changes_no_response(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorded: list[str] = []

    def broken(frame: Frame, outcome: str, *_: Any) -> None:
        raise ZeroDivisionError

    def sound(frame: Frame, outcome: str, *_: Any) -> None:
        recorded.append(outcome)

    monkeypatch.setattr(INSTALLED, "after_call", (broken, sound))
    log.repeated.forget()
    async with Client(server()) as client:
        client.records_calls = True
        assert (await client.call_tool("echo", {"word": "a"})).text == "a"
    assert recorded == ["ok"]
    assert "An extension failed after a call" in caplog.text
