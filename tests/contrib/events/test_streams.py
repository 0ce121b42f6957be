"""events/stream: events as they happen, on one stream for each subscription."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError

from django_mcp import Server
from django_mcp.contrib.events import Event, event, recipients
from django_mcp.contrib.events.declaration import DELIVERIES
from django_mcp.contrib.events.methods import streaming
from django_mcp.routing import endpoint
from django_mcp.testing import Client, ErrorResponse
from django_mcp.transports.http.request import WAITING_THREAD
from django_mcp.transports.wsgi import waiting_thread
from example_site.helpdesk.models import Customer
from tests.contrib.events.conftest import Note, close, ticket
from tests.spec import spec
from tests.wire.messages import CAPABILITIES, JSON, STATELESS, VERSION
from tests.wsgi.requests import bridged, environ, perform

pytestmark = pytest.mark.django_db(transaction=True)

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META = {VERSION: STATELESS, CAPABILITIES: {}}


@asynccontextmanager
async def streamed(
    client: Client, name: str, cursor: str | None = None, **params: Any
) -> AsyncIterator[asyncio.Task[Any]]:
    """Open a stream, and wait until it is active."""
    opened = client.request("events/stream", {"name": name, "cursor": cursor, **params})
    task = asyncio.ensure_future(opened)
    try:
        arrival = asyncio.ensure_future(client.wait_for(streaming.ACTIVE))
        await asyncio.wait({task, arrival}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            arrival.cancel()
            await task
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@spec("EV-30", "EV-31")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_events_follow_the_acknowledgement_in_order(
    server: Server, noted: Event, transport: Literal["memory", "http"]
) -> None:
    async with Client(server, transport=transport) as client:
        async with streamed(client, "note.added"):
            for number in range(3):
                await sync_to_async(noted.emit)({"desk": "a", "text": str(number)})
            events = [await client.wait_for(streaming.EVENT) for _ in range(3)]
        messages = client.notifications
    assert [each["data"]["text"] for each in events] == ["0", "1", "2"]
    assert messages[0]["method"] == streaming.ACTIVE
    assert messages[0]["params"]["truncated"] is False
    ids = {type(each["params"]["_meta"][SUBSCRIPTION]) for each in messages}
    assert ids == {int}


async def test_cursor_of_an_event_replays_what_follows(server: Server, noted: Event) -> None:
    async with Client(server) as client:
        async with streamed(client, "note.added"):
            for number in range(2):
                await sync_to_async(noted.emit)({"desk": "a", "text": str(number)})
            cursor = (await client.wait_for(streaming.EVENT))["cursor"]
            await client.wait_for(streaming.EVENT)
        async with streamed(client, "note.added", cursor):
            again = await client.wait_for(streaming.EVENT)
    assert again["data"]["text"] == "1"


@spec("EV-30")
async def test_invalid_stream_is_an_error_at_once(server: Server, noted: Event) -> None:
    async with Client(server, transport="http") as client:
        for params in (
            {"name": "nothing"},
            {"name": "note.added", "arguments": {"x": 1}},
            {"name": "note.added", "cursor": "forged"},
        ):
            with pytest.raises(ErrorResponse):
                await client.request("events/stream", params)
        assert client.notifications == []


@spec("EV-32")
async def test_heartbeat_says_up_to_where_was_looked(
    server: Server, noted: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT", 0.0)
    async with Client(server) as client, streamed(client, "note.added"):
        beat = await client.wait_for(streaming.HEARTBEAT_METHOD)
        params = {"name": "note.added", "cursor": beat["cursor"]}
        assert (await client.request("events/poll", params))["events"] == []


async def test_lost_permission_terminates_the_stream(
    server: Server, closed: Event, customer: Customer, ann: User
) -> None:
    async with Client(server, user=ann) as client, streamed(client, "ticket.closed") as task:
        await ann.user_permissions.aclear()
        await sync_to_async(close)(await sync_to_async(ticket)(customer, ann))
        ended = await client.wait_for(streaming.TERMINATED)
        result = await task
    assert ended["error"]["code"] == -32011
    assert SUBSCRIPTION in result["_meta"]
    assert not [each for each in client.notifications if each["method"] == streaming.EVENT]


@pytest.mark.parametrize("query", ["with_current_user", "ask_again"])
async def test_stream_goes_on_after_an_outage(
    server: Server, noted: Event, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    async def fail(*args: Any) -> Any:
        raise OperationalError("the database is away")

    async with Client(server) as client, streamed(client, "note.added") as task:
        with monkeypatch.context() as patched:
            patched.setattr(recipients, query, fail)
            await sync_to_async(noted.emit)({"desk": "a"})
            failed = await client.wait_for(streaming.ERROR)
        event = await client.wait_for(streaming.EVENT)
        assert not task.done()
    assert failed["error"]["code"] == -32603
    assert event["data"]["desk"] == "a"


async def test_event_that_is_removed_terminates_the_stream(server: Server, noted: Event) -> None:
    async with Client(server) as client, streamed(client, "note.added") as task:
        server.components.remove("event", "note.added")
        ended = await client.wait_for(streaming.TERMINATED)
        await task
    assert ended["error"]["data"] == {"kind": "event"}


async def test_stream_has_no_time_limit(server: Server, noted: Event, configure: Any) -> None:
    configure(HANDLER_TIMEOUT=0.2)
    async with Client(server, transport="http") as client, streamed(client, "note.added") as task:
        await asyncio.sleep(0.5)
        assert not task.done()
        await sync_to_async(noted.emit)({"desk": "late"})
        assert (await client.wait_for(streaming.EVENT))["data"]["desk"] == "late"


async def test_listener_learns_that_the_list_has_changed(server: Server, noted: Event) -> None:
    async with Client(server) as client, client.listen(eventsListChanged=True):  # type: ignore[arg-type]
        server.components.remove("event", "note.added")
        await client.wait_for(streaming.LIST_CHANGED)


def under_wsgi(server: Server, method: str) -> dict[str, Any]:
    """Return the result of a request whose response occupies a thread of the WSGI server."""
    application = bridged(endpoint(server), {WAITING_THREAD: waiting_thread})
    sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}}
    headers = {**JSON, "Host": "testserver", "mcp-protocol-version": STATELESS}
    headers["mcp-method"] = method
    variables = environ(path="/desk", headers=headers, body=json.dumps(sent).encode())
    result: dict[str, Any] = json.loads(perform(application, variables).body)["result"]
    return result


@spec("EV-05")
@pytest.mark.parametrize(("streams", "listed"), [(0, ["poll", "webhook"]), (1, [*DELIVERIES])])
def test_push_is_listed_where_the_server_has_streams(
    server: Server, noted: Event, configure: Any, streams: int, listed: list[str]
) -> None:
    configure(WSGI_STREAMS=streams)
    only = event("note.pushed", payload=Note, delivery=["push"], server=server)
    only.__mcp_register__(server)

    events = under_wsgi(server, "events/list")["events"]
    capabilities = under_wsgi(server, "server/discover")["capabilities"]

    names = ["note.added", "note.pushed"] if streams else ["note.added"]
    assert [each["name"] for each in events] == names
    assert events[0]["delivery"] == listed
    settings = {"listChanged": True} if streams else {}
    assert capabilities["events"] == settings
    assert capabilities["extensions"]["io.modelcontextprotocol/events"] == settings
