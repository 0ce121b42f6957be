"""Notifications that a handler sends while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def notifying_server() -> Server:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def count(to: int, frame: Frame) -> str:
        for number in range(to):
            frame.client.progress(number + 1, to, f"step {number + 1}")
            frame.client.log("info", f"counted {number + 1}")
        return "done"

    @server.tool
    async def acount(to: int, frame: Frame) -> str:
        for number in range(to):
            await frame.client.aprogress(number + 1, to, f"step {number + 1}")
            await frame.client.alog("info", f"counted {number + 1}")
        return "done"

    @server.tool
    async def hasty(frame: Frame) -> str:
        frame.client.progress(0.5)
        frame.client.log("info", "and gone")
        return "done"

    @server.tool
    def report(frame: Frame) -> str:
        for level in LEVELS:
            frame.client.log(level, level)
        return "done"

    return server


@spec("PROG-03")
@pytest.mark.parametrize("tool", ["count", "acount"])
async def test_notifications_are_delivered_in_order_before_the_response(
    client_for: ClientFor, mcp_version: str, tool: str
) -> None:
    async with client_for(notifying_server()) as client:
        result = await client.call_tool(tool, {"to": 3})
        received = len(client.notifications)

    assert result.text == "done"
    assert received == len(client.notifications) == 6
    assert [each["progress"] for each in client.progress] == [1, 2, 3]
    assert [each["total"] for each in client.progress] == [3, 3, 3]
    messages = [each.get("message") for each in client.progress]
    assert messages == (
        [None] * 3 if mcp_version == "2024-11-05" else ["step 1", "step 2", "step 3"]
    )
    assert [each["data"] for each in client.logs] == ["counted 1", "counted 2", "counted 3"]


async def test_sync_notifications_of_an_async_handler_precede_its_response(
    client_for: ClientFor,
) -> None:
    async with client_for(notifying_server()) as client:
        await client.call_tool("hasty")
        received = [each["method"] for each in client.notifications]

    assert received == ["notifications/progress", "notifications/message"]


async def test_large_number_of_notifications_is_delivered_completely(client_for: ClientFor) -> None:
    async with client_for(notifying_server()) as client:
        await client.call_tool("count", {"to": 2500})
        progress = [each["progress"] for each in client.progress]

    assert progress == list(range(1, 2501))


# Progress.


@spec("PROG-01", "2026/META-10", "2026/PRG-01")
@pytest.mark.parametrize("token", ["a-b", "", 0, 7])
async def test_progress_notification_repeats_the_token_with_its_type(
    client_for: ClientFor, token: str | int
) -> None:
    async with client_for(notifying_server()) as client:
        await client.call_tool("count", {"to": 1}, meta={"progressToken": token})

    (progress,) = client.progress
    assert progress["progressToken"] == token
    assert type(progress["progressToken"]) is type(token)


@spec("PROG-07", "PROG-08", "2026/PRG-01", "2026/PRG-05")
async def test_progress_is_not_sent_without_a_progress_token(client_for: ClientFor) -> None:
    async with client_for(notifying_server()) as client:
        message = client.message("tools/call", {"name": "count", "arguments": {"to": 2}})
        del message["params"]["_meta"]["progressToken"]
        await client.send(message)

    assert client.progress == []
    assert len(client.logs) == 2


@spec("PROG-04", "2026/PRG-02")
async def test_progress_that_does_not_increase_is_dropped(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def wander(frame: Frame) -> None:
        for number in (1, 1, 0.5, 2, 2.0, 2.5):
            frame.client.progress(number)

    async with client_for(server) as client:
        await client.call_tool("wander")

    assert [each["progress"] for each in client.progress] == [1, 2, 2.5]
    assert all("total" not in each and "message" not in each for each in client.progress)


# Logs.


@spec("LOG-06", "LOG-10", "LOG-11")
async def test_log_message_contains_level_logger_and_data(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def notify(frame: Frame) -> None:
        frame.client.log("warning", "careful")
        frame.client.log("error", "too late", data={"code": 7}, logger="desk.tickets")
        frame.client.log("WARN", data=[None])
        frame.client.log("Fatal", "oh")

    async with client_for(server) as client:
        await client.call_tool("notify")

    assert client.logs == [
        {"level": "warning", "logger": "desk", "data": "careful"},
        {"level": "error", "logger": "desk.tickets", "data": {"code": 7}},
        {"level": "warning", "logger": "desk", "data": [None]},
        {"level": "critical", "logger": "desk", "data": "oh"},
    ]


@spec("LOG-02", "LOG-03")
@pytest.mark.parametrize("level", ["debug", "warning", "emergency"])
async def test_log_messages_below_the_level_are_not_sent(client_for: ClientFor, level: str) -> None:
    async with client_for(notifying_server(), log_level=level) as client:
        await client.call_tool("report")

    assert [each["level"] for each in client.logs] == LEVELS[LEVELS.index(level) :]


@spec("LOG-04", "2026/LOG-02")
async def test_default_log_level_depends_on_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(notifying_server(), log_level=None) as client:
        await client.call_tool("report")

    received = [each["level"] for each in client.logs]
    assert received == ([] if mcp_version == STATELESS else LEVELS[1:])


@spec("LOG-03")
@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_set_level_changes_the_log_level_of_the_session(client_for: ClientFor) -> None:
    async with client_for(notifying_server()) as client:
        assert await client.request("logging/setLevel", {"level": "alert"}) == {}
        await client.call_tool("report")

    assert [each["level"] for each in client.logs] == ["alert", "emergency"]


@spec("LOG-05")
@pytest.mark.parametrize("mcp_version", SESSIONS)
@pytest.mark.parametrize("params", [{}, {"level": "banana"}, {"level": 3}, {"level": None}])
async def test_set_level_with_unknown_level_is_rejected(
    client_for: ClientFor, params: dict[str, Any]
) -> None:
    async with client_for(notifying_server(), log_level="alert") as client:
        error = await error_of(client.request("logging/setLevel", params))
        await client.call_tool("report")

    assert error.code == -32602
    assert [each["level"] for each in client.logs] == ["alert", "emergency"]


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_client_capabilities_can_set_the_initial_log_level(client_for: ClientFor) -> None:
    log_capability = {"experimental": {"logLevel": "error"}}

    async with client_for(
        notifying_server(), log_level=None, capabilities=log_capability
    ) as client:
        await client.call_tool("report")

    assert [each["level"] for each in client.logs] == LEVELS[LEVELS.index("error") :]


@pytest.mark.parametrize("mcp_version", [STATELESS])
@pytest.mark.parametrize("level", ["banana", 3, "WARN"])
async def test_stateless_request_with_unknown_log_level_is_rejected(
    client_for: ClientFor, level: Any
) -> None:
    log_meta = {"io.modelcontextprotocol/logLevel": level}

    async with client_for(notifying_server()) as client:
        error = await error_of(client.call_tool("report", meta=log_meta))
        assert (await client.call_tool("report"))["content"]

    assert error.code == -32602


async def test_message_logged_with_unknown_level_is_sent_as_debug(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def notify(frame: Frame) -> None:
        frame.client.log("loud", "hello")

    async with client_for(server) as client:
        await client.call_tool("notify")

    assert [each["level"] for each in client.logs] == ["debug"]


# Other notifications.


@pytest.mark.every_combination
async def test_handler_can_send_any_notification_of_the_revision(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    async def change(frame: Frame) -> None:
        await frame.client.anotify("notifications/resources/updated", {"uri": "desk://tickets"})

    async with client_for(server) as client:
        await client.call_tool("change")

    assert [each["params"]["uri"] for each in client.notifications] == ["desk://tickets"]


@pytest.mark.every_combination
async def test_notification_unknown_to_the_revision_is_dropped(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def change(frame: Frame) -> None:
        frame.client.notify("notifications/unheard_of", {})

    async with client_for(server) as client:
        await client.call_tool("change")

    assert client.notifications == []


class NoJson:
    def __str__(self) -> str:
        return "no JSON"


async def test_log_data_without_a_json_form_is_sent_as_a_string(
    client_for: ClientFor,
) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def notify(frame: Frame) -> None:
        frame.client.log("info", data=NoJson())

    async with client_for(server) as client:
        result = await client.call_tool("notify")

    assert "isError" not in result
    assert [log["data"] for log in client.logs] == ["no JSON"]


async def test_text_with_a_lone_surrogate_is_sent_with_an_escape(client_for: ClientFor) -> None:
    server = Server("desk", notify_lists_on_initialize=False)

    @server.tool
    def notify(frame: Frame) -> None:
        for data in ("caf\udce9", {"file": "caf\udce9"}):
            frame.client.log("info", data=data, logger="caf\udce9")
        frame.client.progress(1, message="caf\udce9")

    async with client_for(server) as client:
        result = await client.call_tool("notify")

    assert "isError" not in result
    assert [log["data"] for log in client.logs] == ["caf\\udce9", "{'file': 'caf\\udce9'}"]
    assert client.progress[0].get("message", "caf\\udce9") == "caf\\udce9"
