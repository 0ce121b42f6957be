"""Generated requests: no answer depends on secret columns or secret rows.

Each request is answered twice: before and after everything secret has changed. Both answers must
be the same, so that nothing of it can be found out, whatever the wording of a request.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from django_mcp.testing import ErrorResponse
from tests.toolsets.conftest import Desk, ToolFailed
from tests.toolsets.toolsets import customers, tickets

NAMES = [
    "number", "subject", "description", "status", "price", "is_urgent", "created", "due", "code",
    "data", "customer", "parent", "team", "comments", "name", "email", "password", "budget", "id",
    "pk", "tickets", "secret", "text",
]  # fmt: skip
LOOKUPS = [
    "exact", "iexact", "in", "gt", "gte", "lt", "lte", "range", "isnull", "contains", "icontains",
    "startswith", "regex", "iregex", "date", "year", "month", "month__gte", "time", "week",
    "length", "lower", "has_key", "contained_by", "0", "color",
]  # fmt: skip
DECLARED = [
    "number", "number__in", "number__gt", "number__lte", "number__range", "subject",
    "subject__icontains", "subject__startswith", "status", "status__in",
    "price__gte", "price__isnull", "created__gte", "created__lt", "created__date",
    "created__year", "created__month__gte", "due", "due__isnull", "is_urgent", "customer__name",
    "customer__name__icontains", "customer__name__isnull", "customer", "customer__isnull",
    "search", "ordering", "limit", "group_by", "aggregates",
]  # fmt: skip
TOOLS = ["list_tickets", "count_tickets", "aggregate_tickets", "get_ticket", "update_ticket"]

paths = st.builds(
    lambda sign, names, lookup: sign + "__".join([*names, *lookup]),
    st.sampled_from(["", "-", "?", "_", "+"]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    st.lists(st.sampled_from(LOOKUPS), max_size=2),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from([
        "", "\0", "a\0b", "hidden", "%", "_", "'; DROP TABLE x; --", "^h", "(h|x)+$", ".*", "[",
        "2026-02-01", "2026-02-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "NaN", "1e999", "open",
        "F('code')", "Alder", "Printer", "pa55word", "true",
    ]),
    paths,
)  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 14),
    st.integers(),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**40]),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(texts, scalars, max_size=2),
)
orderings = st.lists(st.sampled_from(["number", "-price", "due", "-customer__name"]), max_size=3)
groups = st.lists(
    st.sampled_from(["status", "created__month", "customer__name"]), min_size=1, max_size=3
)
requests = st.tuples(
    st.sampled_from(TOOLS),
    st.dictionaries(st.one_of(st.sampled_from(DECLARED), paths), values, max_size=3),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"ordering": orderings}),
        st.fixed_dictionaries({"group_by": groups}),
        st.fixed_dictionaries({"number": st.integers(1, 14)}),
        st.fixed_dictionaries({"customer__name__icontains": texts}),
        st.fixed_dictionaries({"search": texts}),
    ),
)


def change_what_is_secret(models: Any) -> None:
    """Change all columns that are not listed, and delete or change all hidden rows."""
    shown = models.Ticket.objects.filter(team__name="north")
    models.Ticket.objects.exclude(team__name="north").delete()
    shown.update(code="other", data={"other": 1})
    models.Customer.objects.update(email="other@other.example", password="other")
    south = models.Team.objects.get(name="south")
    other = models.Customer.objects.create(name="Printer Alder", password="x", team=south)
    shown.filter(number=8).update(customer=other)
    models.Customer.objects.filter(name="Hidden Ltd").delete()
    models.Team.objects.update(budget=5)
    models.Comment.objects.update(text="other", code="other")


class Rollback(Exception):
    """Rolls back what a request, and the change of secrets, wrote."""


def answered(call: Any, name: str, arguments: dict[str, Any], change: Any = None) -> str:
    """The answer as text, except for cursors, which are different each time."""
    answer = ""
    try:
        with transaction.atomic(using=call.alias):
            if change is not None:
                change()
            try:
                answer = json.dumps(call(name, **arguments))
            except (ToolFailed, ErrorResponse) as rejected:
                answer = f"ToolFailed: {rejected}"
            raise Rollback
    except Rollback:
        pass
    head, _, cursor = answer.partition('"next_cursor": ')
    return head + ("null" if cursor.startswith("null") else "…")


@pytest.fixture
def call(desk: Desk) -> Any:
    served: Any = desk.serve(tickets(desk.models), customers(desk.models))
    served.alias = desk.alias
    return served


@settings(
    max_examples=200,
    deadline=None,
    # Each example takes some milliseconds, and shrinking thousands of them.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=requests)
def test_no_answer_depends_on_what_is_secret(
    desk: Desk, call: Any, request: Any, caplog: pytest.LogCaptureFixture
) -> None:
    name, arguments, more = request
    whole = {**arguments, **more}
    first = answered(call, name, whole)
    second = answered(call, name, whole, lambda: change_what_is_secret(desk.models))
    assert first == second
    sent = json.dumps(whole)
    for secret in ("hidden", "Hidden", "pa55word", "secret@", "Traceback", "SELECT"):
        assert secret not in first or secret in sent
    # Whatever is sent is answered by a rule, not by an exception that nobody expected.
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
