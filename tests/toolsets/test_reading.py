"""Lists, single rows, counts and completions, on every available database."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test.utils import CaptureQueriesContext
from django.utils.dateparse import parse_duration

from django_mcp.testing import Client
from tests.toolsets.conftest import Caller, Desk, ToolFailed
from tests.toolsets.toolsets import customers, meetings, tickets


@pytest.fixture
def call(desk: Desk) -> Any:
    return desk.serve(tickets(desk.models), customers(desk.models))


def numbers(result: Any) -> list[int]:
    return [item["number"] for item in result["items"]]


def all_pages(call: Any, **arguments: Any) -> list[int]:
    found: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = call("list_tickets", limit=3, **arguments, **cursor)
        found += numbers(page)
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_list_has_the_fields_of_visible_rows(call: Any) -> None:
    page = call("list_tickets")
    assert numbers(page) == [1, 2, 3, 4, 5, 6, 7, 8]
    first = page["items"][0]
    assert first.pop("customer") > 0
    assert first == {
        "number": 1,
        "subject": "Printer 1",
        "description": "It is broken 1",
        "status": "open",
        "price": "10.00",
        "rating": None,
        "is_urgent": True,
        "created": "2026-02-01T12:00:00Z",
        "due": "2026-05-01",
        "customer__name": "Alder",
        "parent": None,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"number": 2}, [2]),
        ({"number__in": [1, 3, 99]}, [1, 3]),
        ({"number__gt": 6}, [7, 8]),
        ({"number__range": [2, 3]}, [2, 3]),
        ({"subject__icontains": "PRINTER 3"}, [3]),
        ({"subject__startswith": "Printer 4"}, [4]),
        ({"subject__icontains": "%"}, []),
        ({"status": "closed"}, [3, 6]),
        ({"price__gte": "60"}, [6, 7]),
        ({"price__isnull": True}, [4, 8]),
        ({"created__gte": "2026-03-01T00:00:00Z"}, [2, 5, 8]),
        ({"created__date": "2026-02-04"}, [4]),
        ({"created__year": 2025}, []),
        ({"created__month__gte": 3}, [2, 5, 8]),
        ({"due": "2026-05-03"}, [3]),
        ({"is_urgent": False}, []),
        ({"customer__name": "Alder", "number__lte": 2}, [1, 2]),
        ({"search": "broken printer 5"}, [5]),
        ({"search": "alder 6"}, [6]),
    ],
)
def test_filters_choose_rows(call: Any, arguments: dict[str, Any], expected: list[int]) -> None:
    assert numbers(call("list_tickets", **arguments)) == expected
    assert call("count_tickets", **arguments) == {"count": len(expected)}


@pytest.mark.parametrize(
    ("ordering", "expected"),
    [
        (["-number"], [8, 7, 6, 5, 4, 3, 2, 1]),
        (["price"], [4, 8, 1, 2, 3, 5, 6, 7]),
        (["-price"], [7, 6, 5, 3, 2, 1, 8, 4]),
        (["-due", "number"], [7, 5, 3, 1, 2, 4, 6, 8]),
        (["customer__name", "-number"], [8, 7, 6, 5, 4, 3, 2, 1]),
        (["-customer__name", "price"], [4, 1, 2, 3, 5, 6, 7, 8]),
        (["created"], [3, 6, 1, 4, 7, 2, 5, 8]),
    ],
)
def test_pages_have_every_row_once_in_order(
    call: Any, ordering: list[str], expected: list[int]
) -> None:
    assert all_pages(call, ordering=ordering) == expected


def test_cursor_of_another_request_is_rejected(call: Any) -> None:
    cursor = call("list_tickets", limit=2)["next_cursor"]
    for arguments in ({"ordering": ["-number"]}, {"status": "open"}):
        with pytest.raises(ToolFailed, match="does not belong to this request"):
            call("list_tickets", cursor=cursor, **arguments)
    assert numbers(call("list_tickets", cursor=cursor, limit=1)) == [3]


def test_cursor_of_another_caller_is_rejected(call: Any) -> None:
    owner = Caller("north")
    other = Caller("north")
    other.pk = owner.pk + 1
    cursor = call("list_tickets", owner, limit=2)["next_cursor"]

    with pytest.raises(ToolFailed, match="does not belong to this request"):
        call("list_tickets", other, cursor=cursor, limit=2)

    assert numbers(call("list_tickets", owner, cursor=cursor, limit=2)) == [3, 4]


def test_forged_cursor_is_rejected(call: Any) -> None:
    with pytest.raises(ToolFailed, match="does not belong"):
        call("list_tickets", cursor="W10")


def test_rows_added_before_the_cursor_do_not_shift_pages(call: Any, desk: Desk) -> None:
    page = call("list_tickets", limit=3, ordering=["-number"])
    ticket = desk.models.Ticket.objects.get(number=1)
    ticket.pk, ticket.number = None, 100
    ticket.save()
    rest = call("list_tickets", limit=3, ordering=["-number"], cursor=page["next_cursor"])
    assert numbers(rest) == [5, 4, 3]


def test_get_returns_one_row(call: Any) -> None:
    assert call("get_ticket", number=3)["subject"] == "Printer 3"


@pytest.mark.parametrize("number", [9, 999])
def test_hidden_row_is_answered_like_an_unknown_one(call: Any, number: int) -> None:
    with pytest.raises(ToolFailed, match=f"^There is no ticket {number}.$"):
        call("get_ticket", number=number)


def test_hidden_related_row_is_like_none(call: Any) -> None:
    hidden = call("get_ticket", number=8)
    assert (hidden["customer__name"], hidden["customer"]) == (None, None)
    assert call("count_tickets", customer__name__isnull=True) == {"count": 1}
    assert call("count_tickets", customer__isnull=True) == {"count": 1}
    assert call("count_tickets", customer__name__icontains="hidden") == {"count": 0}
    assert call("count_tickets", search="hidden") == {"count": 0}


def test_filter_by_the_key_of_a_hidden_related_row_finds_nothing(call: Any, desk: Desk) -> None:
    hidden = desk.models.Customer.objects.get(name="Hidden Ltd")
    assert call("count_tickets", customer=hidden.pk) == {"count": 0}


def test_related_model_without_permission_is_like_none(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models))
    caller = Caller("north", "toolset_desk.view_ticket")
    assert call("get_ticket", caller, number=1)["customer__name"] is None
    assert call("get_ticket", number=1)["customer__name"] == "Alder"


def test_toolset_without_permissions_opens_no_related_model(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models, permissions=None))
    nobody = Caller("north", "nothing")
    assert call("get_ticket", nobody, number=1)["customer__name"] is None
    assert call("count_tickets", nobody, customer__name="Alder") == {"count": 0}
    viewer = Caller("north", "toolset_desk.view_customer")
    assert call("get_ticket", viewer, number=1)["customer__name"] == "Alder"


@pytest.mark.parametrize(
    "arguments",
    [
        {"code": "hidden-code-1"},
        {"subject__contains": "a"},
        {"customer__password__startswith": "p"},
        {"customer__team__budget": 77},
        {"number__lt": 3},
        {"ordering": ["code"]},
        {"ordering": ["customer__password"]},
        {"limit": 101},
        {"limit": 0},
        {"search": "a\0b"},
        {"subject": "a\0b"},
        {"number": 2**70},
        {"price__gte": "NaN"},
        {"price__gte": "1e400000"},
        {"created__gte": "0001-01-01T00:00:00+14:00"},
        {"status": "secret"},
        {"subject__regex": "Printer"},
    ],
)
def test_argument_that_is_not_declared_or_out_of_range_is_rejected(
    call: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ToolFailed, match="Invalid arguments"):
        call("list_tickets", **arguments)


def test_long_texts_are_cut_in_lists(desk: Desk) -> None:
    desk.models.Ticket.objects.filter(number=1).update(description="x" * 5000)
    call = desk.serve(tickets(desk.models, max_text=100))
    assert call("list_tickets", number=1)["items"][0]["description"] == "x" * 100 + "…"
    assert call("get_ticket", number=1)["description"] == "x" * 5000


def test_page_ends_where_the_answer_would_be_too_long(desk: Desk) -> None:
    desk.models.Ticket.objects.update(description="x" * 900)
    call = desk.serve(tickets(desk.models, max_characters=4000))
    page = call("list_tickets")
    assert numbers(page) == [1, 2, 3]
    assert numbers(call("list_tickets", cursor=page["next_cursor"])) == [4, 5, 6]


def test_long_text_of_one_row_is_cut_at_the_size_of_an_answer(desk: Desk) -> None:
    desk.models.Ticket.objects.filter(number=1).update(description="x" * 5000)
    call = desk.serve(tickets(desk.models, max_characters=1000))
    assert call("get_ticket", number=1)["description"] == "x" * 1000 + "…"


def test_list_with_two_relations_takes_one_query(call: Any, desk: Desk) -> None:
    with CaptureQueriesContext(desk.connection) as queries:
        call("list_tickets")
    assert len(reads(queries)) == 1


def test_get_takes_one_query(call: Any, desk: Desk) -> None:
    with CaptureQueriesContext(desk.connection) as queries:
        call("get_ticket", number=1)
    assert len(reads(queries)) == 1


def reads(queries: CaptureQueriesContext) -> list[str]:
    """The statements that read tables."""
    return [query["sql"] for query in queries if " FROM " in query["sql"]]


def test_object_permission_hides_a_row_from_get(desk: Desk) -> None:
    calls_seen = []

    def has_object_permission(self: Any, frame: Any, ticket: Any, operation: str) -> bool:
        calls_seen.append((ticket.number, operation))
        return bool(ticket.number != 2)

    call = desk.serve(tickets(desk.models, has_object_permission=has_object_permission))
    assert call("get_ticket", number=1)["number"] == 1
    with pytest.raises(ToolFailed, match="^There is no ticket 2.$"):
        call("get_ticket", number=2)
    assert calls_seen == [(1, "get"), (2, "get")]


def test_resource_of_a_row_is_read_and_completed(call: Any) -> None:
    async def run() -> None:
        async with Client(call.server, user=Caller()) as client:
            contents = await client.read_resource("ticket://3")
            assert '"subject":"Printer 3"' in contents.text
            for uri in ("ticket://9", "ticket://999", "ticket://x", "ticket://1%00"):
                with pytest.raises(Exception, match="not found"):
                    await client.read_resource(uri)
            reference = {"type": "ref/resource", "uri": "ticket://{number}"}
            found = await client.complete(reference, "number", "1")
            assert found["values"] == ["1"]

    async_to_sync(run)()


def test_completion_leaves_out_what_object_permissions_deny(desk: Desk) -> None:
    def has_object_permission(self: Any, frame: Any, ticket: Any, operation: str) -> bool:
        return bool(ticket.number != 1)

    denying = tickets(desk.models, has_object_permission=has_object_permission)
    call: Any = desk.serve(denying)

    async def complete(uri: str, argument: str, typed: str) -> Any:
        reference = {"type": "ref/resource", "uri": uri}
        async with Client(call.server, user=Caller()) as client:
            return (await client.complete(reference, argument, typed))["values"]

    assert async_to_sync(complete)("ticket://{number}", "number", "1") == []
    assert async_to_sync(complete)("ticket://{number}", "number", "2") == ["2"]


def test_permissions_of_the_model_hide_tools(call: Any) -> None:
    async def names(*permissions: str) -> list[str]:
        async with Client(call.server, user=Caller("north", *permissions)) as client:
            return [tool["name"] for tool in await client.list_tools()]

    assert async_to_sync(names)("toolset_desk.view_customer") == [
        "get_customer",
        "list_customers",
    ]
    assert async_to_sync(names)("toolset_desk.delete_ticket") == ["delete_ticket"]


def test_long_durations_are_paged_over_and_written_back(desk: Desk) -> None:
    models = desk.models
    team = models.Team.objects.first()
    section = models.Section.objects.create(number=1, name="First", team=team)
    day = date(2026, 5, 1)
    lengths = [timedelta(days=-400, seconds=1), timedelta(days=1), timedelta(days=400)]
    for length in lengths:
        name = f"of-{length.days}"
        models.Meeting.objects.create(slug=name, start=day, end=day, section=section, length=length)
    lists = {"fields": ["pk", "length"], "filter_fields": {}, "write_fields": ["length"]}
    call = desk.serve(meetings(models, ordering_fields=["length"], **lists))
    rows: list[Any] = []
    page: dict[str, Any] = {"next_cursor": None}
    for _ in lengths:
        cursor = {"cursor": page["next_cursor"]} if rows else {}
        page = call("list_meetings", ordering=["length"], limit=1, **cursor)
        rows += page["items"]
    assert [parse_duration(row["length"]) for row in rows] == lengths
    assert call("update_meeting", **rows[-1]) == rows[-1]
