"""Aggregates of visible rows, on every available database."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolsets.conftest import Caller, Desk, ToolFailed
from tests.toolsets.toolsets import customers, tickets


@pytest.fixture
def call(desk: Desk) -> Any:
    return desk.serve(tickets(desk.models), customers(desk.models))


def test_without_groups_all_visible_rows_are_one(call: Any) -> None:
    names = ["price__sum", "price__avg", "price__min", "price__max", "number__sum", "number__avg"]
    (group,) = call("aggregate_tickets", aggregates=names)["groups"]
    assert group.pop("number__avg") == 4.5
    assert float(group.pop("price__avg")) == 40
    amounts = {name: float(group.pop(name)) for name in ("price__sum", "price__min", "price__max")}
    assert amounts == {"price__sum": 240, "price__min": 10, "price__max": 70}
    assert group == {"number__sum": 36, "count": 8}


def test_groups_are_sorted_by_their_count(call: Any) -> None:
    result = call("aggregate_tickets", group_by=["status"], aggregates=["number__sum"])
    assert result == {
        "groups": [
            {"status": "open", "number__sum": 27, "count": 6},
            {"status": "closed", "number__sum": 9, "count": 2},
        ],
        "has_more": False,
    }


def test_dates_are_grouped_by_period(call: Any) -> None:
    result = call("aggregate_tickets", group_by=["created__month"], number__lte=4)
    assert result["groups"] == [
        {"created__month": "2026-02-01", "count": 2},
        {"created__month": "2026-01-01", "count": 1},
        {"created__month": "2026-03-01", "count": 1},
    ]
    assert len(call("aggregate_tickets", group_by=["created__year"])["groups"]) == 1
    for period in ("quarter", "week", "day"):
        assert call("aggregate_tickets", group_by=[f"created__{period}"])["groups"]


def test_hidden_related_rows_are_grouped_as_none(call: Any) -> None:
    result = call("aggregate_tickets", group_by=["customer__name"])
    assert result["groups"] == [
        {"customer__name": "Alder", "count": 7},
        {"customer__name": None, "count": 1},
    ]


def test_no_rows_are_a_group_without_values(call: Any) -> None:
    (group,) = call("aggregate_tickets", aggregates=["price__sum"], number=99)["groups"]
    assert group == {"price__sum": None, "count": 0}
    assert call("aggregate_tickets", Caller("nobody"), group_by=["status"])["groups"] == []


def test_groups_are_bounded(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models, max_groups=2))
    result = call("aggregate_tickets", group_by=["created__day"])
    assert (len(result["groups"]), result["has_more"]) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"group_by": ["code"]},
        {"group_by": ["customer__password"]},
        {"group_by": ["created"]},
        {"aggregates": ["code__max"]},
        {"aggregates": ["price__count"]},
        {"aggregates": ["customer__team__budget__sum"]},
    ],
)
def test_group_or_aggregate_that_is_not_declared_is_rejected(
    call: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ToolFailed, match="Invalid arguments"):
        call("aggregate_tickets", **arguments)
