"""events/list and events/poll, and who may see what."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import ProgrammingError, connections, transaction
from django.utils import timezone
from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.contrib.events import Event, event, extension, interest
from django_mcp.contrib.events.methods import polling
from django_mcp.contrib.events.models import Counter, Interest, Occurrence
from django_mcp.runtime import context_managers
from django_mcp.testing import Client, ErrorResponse
from example_site.helpdesk.models import Customer, Ticket
from tests.contrib.events.conftest import Note, TicketData, close, ticket
from tests.spec import spec

pytestmark = pytest.mark.django_db(transaction=True)

IDENTIFIER = "io.modelcontextprotocol/events"


async def polled(client: Client, name: str, cursor: str | None, **params: Any) -> dict[str, Any]:
    return await client.request("events/poll", {"name": name, "cursor": cursor, **params})


async def numbers(client: Client, name: str, cursor: str) -> list[int]:
    result = await polled(client, name, cursor)
    return [each["data"]["number"] for each in result["events"]]


@spec("EV-01", "EV-04", "EV-05")
async def test_events_are_declared_and_listed(
    server: Server, closed: Event, noted: Event, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        discovered = await client.request("server/discover")
        listed = await client.request("events/list")
    assert discovered["capabilities"]["extensions"][IDENTIFIER] == {"listChanged": True}
    assert discovered["capabilities"]["events"] == {"listChanged": True}
    by_name = {each["name"]: each for each in listed["events"]}
    assert by_name.keys() == {"ticket.closed", "note.added"}
    descriptor = by_name["ticket.closed"]
    assert descriptor["description"] == "A ticket was closed."
    assert descriptor["delivery"] == ["poll", "push", "webhook"]
    assert descriptor["inputSchema"]["properties"].keys() == {"customer"}
    assert descriptor["payloadSchema"]["properties"].keys() == {"number", "subject"}


async def test_server_without_events_declares_nothing_and_has_no_method() -> None:
    async with Client(Server("plain", authenticators=[])) as client:
        discovered = await client.request("server/discover")
        with pytest.raises(ErrorResponse, match="Method not found"):
            await client.request("events/list")
    assert "events" not in discovered["capabilities"]


async def test_older_revision_has_no_events(server: Server, noted: Event) -> None:
    async with Client(server, version="2025-11-25") as client:
        await client.open()
        assert "events" not in client.server.capabilities.described(client.revision)
        with pytest.raises(ErrorResponse, match="Method not found"):
            await client.request("events/list")


@spec("EV-20", "EV-21")
async def test_poll_begins_now_and_continues_at_its_cursor(server: Server, noted: Event) -> None:
    async with Client(server) as client:
        first = await polled(client, "note.added", None)
        assert (first["events"], first["truncated"], first["hasMore"]) == ([], False, False)
        for number in range(3):
            await sync_to_async(noted.emit)({"desk": "a", "text": str(number)}, id=f"n{number}")
        second = await polled(client, "note.added", first["cursor"], maxEvents=2)
        third = await polled(client, "note.added", second["cursor"])
        fourth = await polled(client, "note.added", third["cursor"])
    assert [each["eventId"] for each in second["events"]] == ["n0", "n1"]
    assert (second["hasMore"], second["nextPollMs"]) == (True, 0)
    assert [each["data"] for each in third["events"]] == [{"desk": "a", "text": "2"}]
    assert third["nextPollMs"] > 0
    assert fourth["events"] == []


@spec("EV-22")
async def test_cursor_behind_the_retention_is_truncated_and_no_error(
    server: Server, noted: Event
) -> None:
    async with Client(server) as client:
        first = await polled(client, "note.added", None)
        await sync_to_async(noted.emit)({"desk": "a"})
        await polled(client, "note.added", first["cursor"])
        await Counter.objects.aupdate(pruned=2)
        assert (await polled(client, "note.added", first["cursor"]))["truncated"]
        skipped = await polled(client, "note.added", first["cursor"], maxAgeMs=0)
    assert skipped["truncated"]
    assert skipped["events"] == []


@spec("EV-22")
@pytest.mark.parametrize("is_pruned", [False, True])
async def test_poll_that_was_away_while_nobody_was_interested_is_truncated_once(
    server: Server, noted: Event, is_pruned: bool
) -> None:
    async with Client(server) as client:
        first = await polled(client, "note.added", None)
        await Interest.objects.aupdate(until=timezone.now() - timedelta(seconds=1))
        assert await sync_to_async(noted.emit)({"desk": "a"}) is None
        if is_pruned:
            await sync_to_async(extension.prune)()
            assert not await Interest.objects.aexists()
        second = await polled(client, "note.added", first["cursor"])
        third = await polled(client, "note.added", second["cursor"])
    assert not first["truncated"]
    assert second["truncated"]
    assert not third["truncated"]


async def test_stored_payload_that_is_no_json_is_passed_over(server: Server, noted: Event) -> None:
    async with Client(server) as client:
        first = await polled(client, "note.added", None)
        for text in ("one", "two", "three"):
            await sync_to_async(noted.emit)({"desk": "a", "text": text})
        rows = Occurrence.objects.filter
        await rows(data__contains="one").aupdate(data='{"desk": "a", "text": NaN}')
        await rows(data__contains="two").aupdate(data='{"desk": "a", "text": "\\udc80"}')
        second = await polled(client, "note.added", first["cursor"])
    assert [each["data"]["text"] for each in second["events"]] == ["three"]


@pytest.mark.parametrize("middleware", [[], "all"])
async def test_interest_is_committed_before_the_end_of_the_request(
    server: Server, noted: Event, settings: Any, monkeypatch: pytest.MonkeyPatch, middleware: Any
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": middleware}
    begin = interest.begin
    is_atomic: list[bool] = []

    def observed(server: str, name: str) -> bool:
        is_atomic.append(transaction.get_connection().in_atomic_block)
        return begin(server, name)

    monkeypatch.setattr(interest, "begin", observed)
    async with Client(server, transport="http", sync_execution="threads") as client:
        await polled(client, "note.added", None)
    assert is_atomic == [False]


def test_no_method_that_writes_has_the_transaction_of_a_request(server: Server) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
        atomic = [
            method.name
            for method in extension.EVENTS.methods
            if context_managers.transactions(server, method.call) is not None
        ]
    assert atomic == ["events/list"]


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of polls until all processes know of an interest, which take no time."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(interest, "FRESH", 30.0)
    monkeypatch.setattr(polling, "asyncio", SimpleNamespace(sleep=sleep))
    return pauses


async def test_first_poll_waits_when_the_process_has_no_fresh_answer(
    server: Server, noted: Event, waited: list[float]
) -> None:
    interest.HERE.forget()
    async with Client(server) as client:
        await polled(client, "note.added", None)
    assert waited == [30.0]


async def test_poll_waits_as_long_as_processes_may_not_know_of_the_interest(
    server: Server, noted: Event, waited: list[float]
) -> None:
    async with Client(server) as client:
        await polled(client, "note.added", None)
        await polled(client, "note.added", None)
        assert len(waited) == 2
        await Interest.objects.aupdate(began_at=timezone.now() - timedelta(seconds=90))
        await polled(client, "note.added", None)
    assert len(waited) == 2


async def test_arguments_filter_events(server: Server, noted: Event) -> None:
    async with Client(server) as client:
        cursor = (await polled(client, "note.added", None))["cursor"]
        for desk in "ab":
            await sync_to_async(noted.emit)({"desk": desk})
        result = await polled(client, "note.added", cursor, arguments={"desk": "b"})
        with pytest.raises(ErrorResponse, match="Invalid arguments.*shop") as caught:
            await polled(client, "note.added", cursor, arguments={"shop": 1})
    assert [each["data"]["desk"] for each in result["events"]] == ["b"]
    assert caught.value.code == -32602


class OfDesks(BaseModel):
    desks: list[int]


async def test_long_list_is_a_valid_argument(server: Server) -> None:
    event(
        "note.moved",
        payload=Note,
        arguments=OfDesks,
        server=server,
        matches=lambda arguments, payload, frame: payload["desk"] in arguments.desks,
    ).__mcp_register__(server)
    async with Client(server) as client:
        params = {"arguments": {"desks": [*range(1000)]}}
        result = await polled(client, "note.moved", None, **params)
    assert result["events"] == []


async def test_argument_is_compared_with_the_field_of_a_relation(
    server: Server, closed: Event, customer: Customer, ann: User
) -> None:
    async with Client(server, user=ann) as client:
        cursor = (await polled(client, "ticket.closed", None))["cursor"]
        await sync_to_async(close)(await sync_to_async(ticket)(customer, ann))
        params = {"arguments": {"customer": customer.pk}}
        own = await polled(client, "ticket.closed", cursor, **params)
        params = {"arguments": {"customer": customer.pk + 1}}
        others = await polled(client, "ticket.closed", cursor, **params)
    assert len(own["events"]) == 1
    assert others["events"] == []


# Who may see what.


@spec("isolation-22")
async def test_rows_that_a_subscriber_may_not_see_are_no_events(
    server: Server, closed: Event, customer: Customer, ann: User, bob: User
) -> None:
    async with Client(server, user=ann) as of_ann, Client(server, user=bob) as of_bob:
        cursor = (await polled(of_ann, "ticket.closed", None))["cursor"]
        other = (await polled(of_bob, "ticket.closed", None))["cursor"]
        row = await sync_to_async(ticket)(customer, ann)
        await sync_to_async(close)(row)
        assert await numbers(of_ann, "ticket.closed", cursor) == [row.pk]
        assert await numbers(of_bob, "ticket.closed", other) == []
        # Access is that of the moment of delivery.
        await Ticket.objects.filter(pk=row.pk).aupdate(assignee=bob)
        assert await numbers(of_ann, "ticket.closed", cursor) == []
        assert await numbers(of_bob, "ticket.closed", other) == [row.pk]


async def test_event_that_cannot_be_described_holds_up_no_other(
    server: Server, customer: Customer, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    made = event("ticket.saved", model=Ticket, server=server)

    @made
    class Saved:
        """A ticket was saved."""

        def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
            name = Customer.objects.get(name=ticket.subject).name
            return TicketData(number=ticket.pk, subject=name)

    made.__mcp_register__(server)
    async with Client(server, user=ann) as client:
        cursor = (await polled(client, "ticket.saved", None))["cursor"]
        await sync_to_async(ticket)(customer, ann, "Unknown")
        row = await sync_to_async(ticket)(customer, ann, "Acme")
        assert await numbers(client, "ticket.saved", cursor) == [row.pk]
    assert "The event ticket.saved cannot be described" in caplog.text


async def test_event_waits_for_a_table_that_is_not_migrated(
    server: Server, customer: Customer, ann: User
) -> None:
    is_migrated = False
    made = event("ticket.saved", model=Ticket, server=server)

    @made
    class Saved:
        """A ticket was saved."""

        def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
            if not is_migrated:
                raise ProgrammingError("the table does not exist")
            return TicketData(number=ticket.pk, subject=ticket.subject)

    made.__mcp_register__(server)
    async with Client(server, user=ann) as client:
        cursor = (await polled(client, "ticket.saved", None))["cursor"]
        row = await sync_to_async(ticket)(customer, ann)
        with pytest.raises(ErrorResponse):
            await polled(client, "ticket.saved", cursor)
        is_migrated = True
        assert await numbers(client, "ticket.saved", cursor) == [row.pk]


async def test_hidden_event_is_unknown(
    server: Server, closed: Event, noted: Event, stranger: User
) -> None:
    async with Client(server, user=stranger) as client:
        listed = await client.request("events/list")
        errors = []
        for name in ("ticket.closed", "ticket.lost"):
            with pytest.raises(ErrorResponse) as caught:
                await polled(client, name, None)
            errors.append((caught.value.code, caught.value.message, caught.value.data))
    assert [each["name"] for each in listed["events"]] == ["note.added"]
    assert errors[0] == errors[1] == (-32011, "There is no such event", {"kind": "event"})


async def test_permission_of_another_kind_may_be_a_function(server: Server) -> None:
    def allows(frame: Frame) -> bool:
        return bool(frame.user and frame.user.username == "ann")

    event("own.note", payload=Note, permission=allows, server=server).__mcp_register__(server)
    async with Client(server) as client:
        with pytest.raises(ErrorResponse, match="no such event"):
            await polled(client, "own.note", None)


async def test_event_in_a_group_is_there_for_connections_that_select_it(server: Server) -> None:
    for group in ("sales", "support"):
        made = event(f"{group}.note", payload=Note, group=group, server=server)
        made.__mcp_register__(server)
    async with Client(server, query="groups=sales", transport="http") as client:
        listed = await client.request("events/list")
    assert [each["name"] for each in listed["events"]] == ["sales.note"]


async def test_event_that_is_switched_off_is_unknown(server: Server, noted: Event) -> None:
    server.components.switch_off({("event", "note.added")})
    async with Client(server) as client:
        assert (await client.request("events/list"))["events"] == []
        with pytest.raises(ErrorResponse, match="no such event"):
            await polled(client, "note.added", None)


async def test_deleted_object_is_described_to_those_who_may_receive_it(
    server: Server, customer: Customer, ann: User, bob: User
) -> None:
    made = event("ticket.deleted", model=Ticket, on="deleted", server=server)

    @made
    class Deleted:
        """A ticket was deleted."""

        def may_receive(self, ticket: Ticket, frame: Frame) -> bool:
            return bool(ticket.assignee_id == frame.user.pk)

        def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
            return TicketData(number=ticket.pk, subject=ticket.subject)

    made.__mcp_register__(server)
    async with Client(server, user=ann) as of_ann, Client(server, user=bob) as of_bob:
        cursor = (await polled(of_ann, "ticket.deleted", None))["cursor"]
        other = (await polled(of_bob, "ticket.deleted", None))["cursor"]
        row = await sync_to_async(ticket)(customer, ann)
        number = row.pk
        await row.adelete()
        assert await numbers(of_ann, "ticket.deleted", cursor) == [number]
        assert await numbers(of_bob, "ticket.deleted", other) == []


# Cursors.


@pytest.mark.parametrize("change", [str.swapcase, lambda cursor: cursor[:-2], lambda _: "7"])
async def test_forged_cursor_is_refused(
    server: Server, noted: Event, change: Callable[[str], str]
) -> None:
    async with Client(server) as client:
        cursor = (await polled(client, "note.added", None))["cursor"]
        with pytest.raises(ErrorResponse, match="Invalid cursor") as caught:
            await polled(client, "note.added", change(cursor))
    assert caught.value.code == -32602


@spec("isolation-23")
async def test_cursor_is_of_its_server_its_event_and_its_caller(
    server: Server, noted: Event, ann: User, bob: User
) -> None:
    second = Server("other", path="/other", authenticators=[])
    event("note.added", payload=Note, server=second).__mcp_register__(second)
    event("note.read", payload=Note, server=server).__mcp_register__(server)
    async with Client(server, user=ann) as client:
        cursor = (await polled(client, "note.added", None))["cursor"]
        with pytest.raises(ErrorResponse, match="Invalid cursor"):
            await polled(client, "note.read", cursor)
    async with Client(second, user=ann) as client:
        with pytest.raises(ErrorResponse, match="Invalid cursor"):
            await polled(client, "note.added", cursor)
    async with Client(server, user=bob) as client:
        with pytest.raises(ErrorResponse, match="Invalid cursor"):
            await polled(client, "note.added", cursor)


async def test_draft_has_other_codes(server: Server, noted: Event, configure: Any) -> None:
    configure(EVENTS_ERROR_CODES="draft")
    async with Client(server) as client:
        with pytest.raises(ErrorResponse) as caught:
            await polled(client, "nothing", None)
    assert caught.value.code == -32023


async def test_page_of_the_workbench_and_mcp_show_have_events(
    server: Server, noted: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    from django_mcp import registry

    registry.registered.servers["desk"] = server
    try:
        await sync_to_async(call_command)("mcp_show")
        await sync_to_async(call_command)("mcp_show", "note.added")
    finally:
        del registry.registered.servers["desk"]
    out = capsys.readouterr().out
    assert "note.added" in out
    assert "payloadSchema" in out
