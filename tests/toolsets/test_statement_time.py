"""Statements that take too long are ended by the database."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError, OperationalError, connections, transaction
from django.db.models import Count

from django_mcp import ToolError
from django_mcp.toolsets.queries.statement_time import limited
from tests.toolsets.conftest import Desk, ToolFailed
from tests.toolsets.toolsets import tickets

SLOW = {
    "sqlite": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000)"
        " SELECT count(*) FROM n"
    ),
    "postgresql": "SELECT pg_sleep(20)",
    "mysql": "SELECT SLEEP(20), BENCHMARK(1000000000, MD5('a'))",
}
JOINS = "__".join(["team__tickets"] * 8)
"""Millions of combinations of a dozen tickets, which no database counts before its clock ticks."""


def test_statement_that_takes_too_long_is_ended(desk: Desk) -> None:
    def run() -> None:
        with limited(desk.alias, 0.2), desk.connection.cursor() as cursor:
            cursor.execute(SLOW[desk.connection.vendor])

    with pytest.raises(ToolError, match=r"took longer than 0.2 s: use more filters"):
        run()
    assert desk.models.Ticket.objects.count() == 12


def test_limit_ends_with_its_block(desk: Desk) -> None:
    with limited(desk.alias, 0.2):
        pass
    with transaction.atomic(using=desk.alias):
        with limited(desk.alias, 0.2):
            pass
        if desk.connection.vendor == "postgresql":
            with desk.connection.cursor() as cursor:
                cursor.execute("SHOW statement_timeout")
                assert cursor.fetchone() == ("0",)
    assert desk.models.Ticket.objects.count() == 12


def test_slow_rows_of_the_site_are_an_error_for_the_model(desk: Desk) -> None:
    def get_queryset(self: Any, frame: Any) -> Any:
        objects = desk.models.Ticket.objects
        # The number of combinations makes it slow, whatever the database is.
        numbers = objects.filter(
            **{f"{JOINS}__number__gt": 0},
            team__tickets__team__tickets__comments__text__icontains="no",
        )
        return objects.filter(pk__in=numbers.annotate(n=Count("pk")).values("pk"))

    call = desk.serve(tickets(desk.models, get_queryset=get_queryset, statement_timeout=0.001))
    with pytest.raises(ToolFailed, match=r"took longer than 0.001 s"):
        call("count_tickets")


def test_other_errors_of_the_database_are_raised(desk: Desk) -> None:
    with pytest.raises(OperationalError, match="gone"), limited(desk.alias, 1):
        raise OperationalError("gone")
    match = "cannot compare or add such values"
    with pytest.raises(ToolError, match=match), limited(desk.alias, 1):
        raise DataError("numeric field overflow")


def test_database_without_a_limit_is_used_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    with limited("default", 1):
        pass
