"""Communication between processes: two workers of one site, with a database and Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest

from django_mcp.core.protocol import sse
from tests.databases import REDIS_URL, why_not_redis
from tests.running_site import RunningSite, two_workers
from tests.spec import spec
from tests.waiting import SECONDS, until
from tests.wire.live import events as events_of
from tests.wire.messages import NEWEST_SESSION, STATELESS, WireClient, notification

NO_LAYER = why_not_redis("channels_redis")
pytestmark = pytest.mark.skipif(NO_LAYER is not None, reason=str(NO_LAYER))

PATH = "/conformance"
TIMEOUT = SECONDS
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[RunningSite, RunningSite]]:
    """Two processes of one site."""
    with two_workers("tests.transports.two_workers", REDIS_URL) as sites:
        yield sites


class TwoWorkersClient(WireClient):
    """A client that chooses the worker for each of its requests."""

    def __init__(self, workers: tuple[RunningSite, RunningSite], http: httpx.AsyncClient) -> None:
        super().__init__(version=NEWEST_SESSION, capabilities={"elicitation": {}})
        self.workers = workers
        self.http = http

    async def initialize(self) -> None:
        reply = await self.post(0, self.initialize_request())
        self.session = reply.headers["mcp-session-id"]
        await self.post(1, notification("notifications/initialized"))

    async def post(self, worker: int, message: Any) -> httpx.Response:
        url = self.workers[worker].url(PATH)
        return await self.http.post(url, json=message, headers=self.headers_of(message))

    @asynccontextmanager
    async def open_post(
        self, worker: int, message: Any, path: str = PATH
    ) -> AsyncIterator[AsyncIterator[sse.Event]]:
        url = self.workers[worker].url(path)
        headers = self.headers_of(message)
        async with self.http.stream("POST", url, json=message, headers=headers) as response:
            yield events_of(response)

    @asynccontextmanager
    async def open_get(
        self, worker: int, path: str = PATH, *, last: str | None = None
    ) -> AsyncIterator[AsyncIterator[sse.Event]]:
        resumed = {} if last is None else {"last-event-id": last}
        headers = self.headers_of(None, resumed, method="GET")
        url = self.workers[worker].url(path)
        async with self.http.stream("GET", url, headers=headers) as response:
            assert response.status_code == 200
            yield events_of(response)

    @asynccontextmanager
    async def active_stream(self, worker: int) -> AsyncIterator[AsyncIterator[sse.Event]]:
        """A standalone stream, once it is active: then it receives what the other worker sends."""
        async with self.open_get(worker) as events:
            received = asyncio.ensure_future(notification_of(events, PROMPTS_CHANGED))
            while not received.done():
                await self.post(1 - worker, self.call("test_trigger_prompt_change"))
                await asyncio.wait([received], timeout=0.2)
            await received
            yield events


async def message_of(events: AsyncIterator[sse.Event]) -> dict[str, Any]:
    async with asyncio.timeout(TIMEOUT):
        while True:
            event = await anext(events)
            if event.data:
                message: dict[str, Any] = json.loads(event.data)
                return message


async def notification_of(events: AsyncIterator[sse.Event], method: str) -> dict[str, Any]:
    """The next notification of this method."""
    while (message := await message_of(events)).get("method") != method:
        pass
    return message


@pytest.fixture
async def client(workers: tuple[RunningSite, RunningSite]) -> AsyncIterator[TwoWorkersClient]:
    async with httpx.AsyncClient(timeout=TIMEOUT, verify=False) as http:
        client = TwoWorkersClient(workers, http)
        await client.initialize()
        yield client


async def test_list_change_reaches_the_get_stream_on_another_worker(
    client: TwoWorkersClient,
) -> None:
    async with client.active_stream(1) as events:
        await client.post(0, client.call("test_trigger_tool_change"))
        assert await notification_of(events, TOOLS_CHANGED)


@spec("2026/SUB-09")
async def test_list_change_reaches_listen_streams_on_both_workers(client: TwoWorkersClient) -> None:
    client.version = STATELESS
    async with (
        client.open_post(0, client.listen(1, toolsListChanged=True)) as here,
        client.open_post(1, client.listen(2, toolsListChanged=True)) as there,
    ):
        for events in (here, there):
            assert "acknowledged" in (await message_of(events))["method"]
        await client.post(0, client.call("test_trigger_tool_change"))
        for events in (here, there):
            assert (await message_of(events))["method"] == TOOLS_CHANGED


async def test_list_change_in_a_management_command_reaches_the_open_get(
    client: TwoWorkersClient,
) -> None:
    async with client.active_stream(0) as events:
        code = (
            "from example_site.conformance.server import conformance; "
            "conformance.notify_tools_list_changed()"
        )
        await asyncio.to_thread(client.workers[0].manage, "shell", "-c", code)
        assert await notification_of(events, TOOLS_CHANGED)


SWITCH = """
from django_mcp import registry
from django_mcp.pubsub import switches
for entry in registry.entries(registry.get("conformance")):
    if entry.component.name == "test_simple_text":
        {}
"""


async def test_tool_is_switched_off_and_on_for_both_workers_by_another_process(
    client: TwoWorkersClient,
) -> None:
    def switch(code: str) -> None:
        client.workers[0].manage("shell", "-c", SWITCH.format(code))

    async def is_answered(worker: int) -> bool:
        reply = await client.post(worker, client.call("test_simple_text"))
        return "result" in reply.json()

    async def is_refused(worker: int) -> bool:
        return not await is_answered(worker)

    async with client.active_stream(1) as events:
        assert [await is_answered(worker) for worker in (0, 1)] == [True, True]
        await asyncio.to_thread(switch, 'switches.switch_off([entry], by="boss")')
        assert await notification_of(events, TOOLS_CHANGED)
        for worker in (0, 1):
            await until(partial(is_refused, worker))
        await asyncio.to_thread(switch, "switches.switch_on([entry])")
        for worker in (0, 1):
            await until(partial(is_answered, worker))


async def test_input_request_is_answered_through_another_worker(client: TwoWorkersClient) -> None:
    call = client.call("test_elicitation", message="Who are you?")
    async with client.open_post(0, call) as events:
        request = await message_of(events)
        assert request["method"] == "elicitation/create"
        content = {"username": "ann", "email": "ann@example.com"}
        result = {"action": "accept", "content": content}
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        assert (await client.post(1, answer)).status_code == 202
        text = (await message_of(events))["result"]["content"][0]["text"]
        assert "ann@example.com" in text


async def test_call_is_cancelled_through_another_worker(client: TwoWorkersClient) -> None:
    call = client.call("test_elicitation", message="Who are you?", id="long")
    async with client.open_post(0, call) as events:
        await message_of(events)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        reply = await client.post(1, {**cancelled, "params": {"requestId": "long"}})
        assert reply.status_code == 202
        assert (await message_of(events))["method"] == "notifications/cancelled"
        with pytest.raises(StopAsyncIteration):
            await message_of(events)


async def test_early_cancellation_on_another_worker_is_ignored(client: TwoWorkersClient) -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    await client.post(1, {**cancelled, "params": {"requestId": "early"}})
    reply = await client.post(0, client.call("test_simple_text", id="early"))
    assert "result" in reply.json()


async def test_late_cancellation_on_another_worker_swallows_no_later_request(
    client: TwoWorkersClient,
) -> None:
    await client.post(0, client.call("test_simple_text", id="twice"))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    await client.post(1, {**cancelled, "params": {"requestId": "twice"}})
    reply = await client.post(0, client.call("test_simple_text", id="twice"))
    assert "result" in reply.json()


async def test_interrupted_response_is_replayed_by_another_worker(client: TwoWorkersClient) -> None:
    async with client.open_post(0, client.call("test_reconnection", id=99)) as events:
        first = await anext(events)
        assert [event async for event in events if event.data] == []
    async with client.open_get(1, last=first.id) as events:
        assert (await message_of(events))["id"] == 99
        assert [event async for event in events] == []


async def test_lost_stream_is_resumed_on_another_worker(client: TwoWorkersClient) -> None:
    call = client.call("test_elicitation", message="Who are you?")
    async with client.open_post(0, call) as events:
        first = await anext(events)
        request = await message_of(events)
    async with client.open_get(1, last=first.id) as events:
        assert (await message_of(events))["id"] == request["id"]
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"action": "decline"}}
        await client.post(1, answer)
        assert "decline" in (await message_of(events))["result"]["content"][0]["text"]


@spec("T-HTTP-51")
async def test_newest_stream_is_active_on_any_worker(client: TwoWorkersClient) -> None:
    async with client.active_stream(0) as older, client.active_stream(1) as newer:
        await client.post(0, client.call("test_trigger_tool_change"))
        assert await notification_of(newer, TOOLS_CHANGED)
        with pytest.raises(StopAsyncIteration):
            await notification_of(older, TOOLS_CHANGED)


async def test_delete_closes_streams_on_every_worker(client: TwoWorkersClient) -> None:
    async with client.active_stream(0) as one, client.open_get(1) as two:
        url = client.workers[1].url(PATH)
        reply = await client.http.delete(url, headers=client.headers_of(None, method="DELETE"))
        assert reply.status_code == 204
        async with asyncio.timeout(TIMEOUT):
            for events in (one, two):
                _ = [event async for event in events]
    reply = await client.post(0, client.request("ping"))
    assert reply.status_code == 404


async def test_resource_update_reaches_the_get_stream_on_another_worker(
    client: TwoWorkersClient,
) -> None:
    uri = "test://watched-resource"
    await client.post(0, client.request("resources/subscribe", {"uri": uri}))
    async with client.active_stream(1) as events:
        code = (
            "from example_site.conformance.server import conformance; "
            f"conformance.notify_resource_updated({uri!r})"
        )
        await asyncio.to_thread(client.workers[0].manage, "shell", "-c", code)
        updated = await notification_of(events, "notifications/resources/updated")
        assert updated["params"] == {"uri": uri}


SAVE_TICKETS = """
from django.db import transaction
from example_site.helpdesk.models import Customer, Ticket
with transaction.atomic():
    customer = Customer.objects.create(name="Two", email="two@example.com", city="Rome")
    ticket = Ticket.objects.create(pk=1, customer=customer, subject="One", description="")
    for _ in range(3):
        ticket.save()
Ticket.objects.create(pk=2, customer=customer, subject="Two", description="")
"""


async def test_saved_objects_are_notified_once_to_subscribers_on_both_workers(
    client: TwoWorkersClient,
) -> None:
    client.version = STATELESS
    uris = ["ticket://1", "ticket://2"]
    async with (
        client.open_post(0, client.listen(1, resourceSubscriptions=uris), "/mcp") as here,
        client.open_post(1, client.listen(2, resourceSubscriptions=uris), "/mcp") as there,
    ):
        for events in (here, there):
            assert "acknowledged" in (await message_of(events))["method"]
        await asyncio.to_thread(client.workers[0].manage, "shell", "-c", SAVE_TICKETS)
        for events in (here, there):
            messages = [await message_of(events) for _ in uris]
            assert [each["params"]["uri"] for each in messages] == uris


async def test_http_sse_message_is_accepted_by_another_worker(client: TwoWorkersClient) -> None:
    client.session = None
    async with client.open_get(0, f"{PATH}/sse") as events:
        address = (await anext(events)).data
        url = client.workers[1].url(address)
        old = WireClient(version="2024-11-05")
        reply = await client.http.post(url, json=old.initialize_request())
        assert reply.status_code == 202
        assert (await message_of(events))["result"]["protocolVersion"] == "2024-11-05"
        await client.http.post(url, json=client.request("ping", id="p"))
        assert (await message_of(events))["id"] == "p"
