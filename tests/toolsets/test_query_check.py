"""The check of compiled queries: it rejects what a declaration does not list, by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Case, Count, Exists, F, Max, OuterRef, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length, Substr, TruncMonth
from django.db.models.sql import Query

from django_mcp.toolsets.access import limit_rows
from django_mcp.toolsets.queries import references
from django_mcp.toolsets.queries.paths import resolve
from django_mcp.toolsets.queries.query_check import Allowed, UnlistedColumn, check
from django_mcp.toolsets.queries.references import (
    VisibleRows,
    VisibleValue,
    related_rows,
    visible,
)

Change = Callable[[QuerySet[Any], Any], QuerySet[Any]]

LISTED = Allowed(
    selected={((), "number"), ((), "created"), (("customer",), "name"), ((), "customer_id")},
    ordered={"number": ((), "number"), "customer__name": (("customer",), "name")},
    compared={
        ((), "number"): {"exact", "gt"},
        ((), "created"): {"year", "exact"},
        (("customer",), "name"): {"icontains"},
        ((), "customer_id"): {"exact"},
    },
)


def rows(models: Any) -> QuerySet[Any]:
    return models.Ticket.objects.order_by().values_list("number")  # type: ignore[no-any-return]


ACCEPTED: dict[str, Change] = {
    "listed column": lambda rows, models: rows,
    "listed lookup": lambda rows, models: rows.filter(number__gt=1),
    "negated": lambda rows, models: rows.exclude(Q(number=1) | Q(number__gt=5)),
    "transform": lambda rows, models: rows.filter(created__year=2026),
    "related column": lambda rows, models: rows.filter(customer__name__icontains="a"),
    "ordering": lambda rows, models: rows.order_by(F("customer__name").asc()),
    "function": lambda rows, models: rows.values_list(Substr("customer__name", 1, 5)),
    "period": lambda rows, models: rows.values(m=TruncMonth("created")).annotate(n=Count("*")),
    "row limit": lambda rows, models: (
        visible(models.Ticket.objects.filter(code="x"), models.Ticket, "test")
        .values_list("number")
        .order_by(F("number").asc())
    ),
    "nothing": lambda rows, models: rows.none(),
}

REJECTED: dict[str, Change] = {
    "unlisted column": lambda rows, models: rows.values_list("code"),
    "whole rows": lambda rows, models: models.Ticket.objects.order_by(),
    "unlisted filter": lambda rows, models: rows.filter(code="x"),
    "unlisted filter in a negation": lambda rows, models: rows.exclude(code="x"),
    "unlisted filter in a disjunction": lambda rows, models: rows.filter(Q(number=1) | Q(code="x")),
    "unlisted lookup": lambda rows, models: rows.filter(number__lt=1),
    "unlisted transform": lambda rows, models: rows.filter(created__month=1),
    "unlisted related column": lambda rows, models: rows.filter(customer__password="x"),
    "column of another model": lambda rows, models: rows.filter(customer__team__name="x"),
    "column of many rows": lambda rows, models: rows.filter(comments__code="x"),
    "comparison of columns": lambda rows, models: rows.filter(number=F("code")),
    "subquery": lambda rows, models: rows.filter(
        number__in=models.Ticket.objects.filter(code="x").values("number")
    ),
    "exists": lambda rows, models: rows.filter(
        Exists(models.Comment.objects.filter(ticket=OuterRef("pk"), code="x"))
    ),
    "function in a filter": lambda rows, models: rows.annotate(n=Length("code")).filter(n=1),
    "unlisted ordering": lambda rows, models: rows.order_by(F("code").asc()),
    "ordering by a name": lambda rows, models: rows.order_by("code"),
    "ordering of the model": lambda rows, models: models.Ticket.objects.values_list("number"),
    "ordering by a function": lambda rows, models: rows.order_by(Length("code").asc()),
    "ordering by an annotation": lambda rows, models: rows.annotate(c=F("code")).order_by(
        F("c").asc()
    ),
    "aggregate": lambda rows, models: rows.values("number").annotate(m=Max("code")),
    "group": lambda rows, models: rows.values("code").annotate(n=Count("*")),
    "raw SQL": lambda rows, models: rows.values_list(RawSQL("code", [])),
    "extra": lambda rows, models: rows.extra(where=["code = 'x'"]),
    "extra select": lambda rows, models: rows.extra(select={"x": "code"}),
    "extra table": lambda rows, models: rows.extra(tables=["auth_user"]),
    "union": lambda rows, models: rows.union(models.Ticket.objects.values_list("code")),
    "condition": lambda rows, models: rows.values_list(
        Case(When(code="x", then=F("number")), default=Value(1))
    ),
    "condition of its own for a related row": lambda rows, models: rows.values_list(
        VisibleValue(When(code="x", then=F("customer__name")))
    ),
    "comparison with true for a related row": lambda rows, models: rows.values_list(
        VisibleValue(When(is_urgent__lte=True, then=F("customer__name")))
    ),
    "another default for a hidden row": lambda rows, models: rows.values_list(
        VisibleValue(When(customer__isnull=True, then=F("customer__name")), default=F("code"))
    ),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_query_of_what_is_listed_is_accepted(desk_app: Any, change: Change) -> None:
    check(change(rows(desk_app), desk_app).query, LISTED)


@pytest.mark.parametrize("change", REJECTED.values(), ids=REJECTED.keys())
def test_query_of_anything_else_is_rejected(desk_app: Any, change: Change) -> None:
    with pytest.raises(UnlistedColumn):
        check(change(rows(desk_app), desk_app).query, LISTED)


GUARDED = Allowed(
    selected=LISTED.selected,
    ordered=LISTED.ordered,
    compared=LISTED.compared,
    guards={(("customer",), "name"): 1, ((), "customer_id"): 1},
)

UNGUARDED: dict[str, Change] = {
    "selected": lambda rows, models: rows.values_list("customer__name"),
    "key selected": lambda rows, models: rows.values_list("customer_id"),
    "compared": lambda rows, models: rows.filter(customer__name__icontains="a"),
    "key compared": lambda rows, models: rows.filter(customer_id=1),
    "sorted": lambda rows, models: rows.order_by(F("customer__name").asc()),
}


@pytest.mark.parametrize("change", UNGUARDED.values(), ids=UNGUARDED.keys())
def test_query_without_the_limit_of_related_rows_is_rejected(desk_app: Any, change: Change) -> None:
    check(change(rows(desk_app), desk_app).query, LISTED)
    with pytest.raises(UnlistedColumn):
        check(change(rows(desk_app), desk_app).query, GUARDED)


@pytest.mark.parametrize("is_empty", [False, True])
def test_query_with_the_limit_of_related_rows_is_accepted(desk_app: Any, is_empty: bool) -> None:
    limited = VisibleRows(visible(desk_app.Ticket.objects.all(), desk_app.Ticket, "test"))
    shown = desk_app.Customer.objects.filter(pk__in=[] if is_empty else [1])
    limited.limits["customer",] = related_rows(shown, "default")
    assert (limited.limits["customer",] is None) is is_empty
    names = [
        limited.reference(resolve(desk_app.Ticket, name, "test"))
        for name in ("customer__name", "customer")
    ]
    chosen = limited.queryset.filter(**{f"{names[0]}__icontains": "a", names[1]: 1})
    check(chosen.order_by(F(names[0]).asc()).values_list(*names).query, GUARDED)


@pytest.mark.parametrize("limited_relations", [["customer"], ["customer", "customer__team"]])
def test_each_limited_relation_on_the_way_needs_its_condition(
    desk_app: Any, limited_relations: list[str]
) -> None:
    shown = VisibleRows(visible(desk_app.Ticket.objects.all(), desk_app.Ticket, "test"))
    models = {"customer": desk_app.Customer, "customer__team": desk_app.Team}
    for name in limited_relations:
        rows_of = models[name].objects.filter(pk=1)
        shown.limits[tuple(name.split("__"))] = related_rows(rows_of, "default")
    reference = shown.reference(resolve(desk_app.Ticket, "customer__team__name", "test"))
    query = shown.queryset.order_by().values_list(reference).query
    key = ("customer", "team"), "name"
    check(query, Allowed(selected={key}, guards={key: len(limited_relations)}))
    with pytest.raises(UnlistedColumn, match="condition of its own"):
        check(query, Allowed(selected={key}, guards={key: len(limited_relations) + 1}))


def test_everything_is_known_from_rows_that_are_limited(desk_app: Any) -> None:
    objects = desk_app.Ticket.objects
    assert references.is_everything(objects.all().query)
    assert references.is_everything(objects.select_related("customer").order_by("code").query)
    for limited in (
        objects.filter(number=1),
        objects.exclude(number=1),
        objects.none(),
        objects.distinct(),
        objects.all().union(objects.all()),
        objects.extra(where=["1 = 0"]),
        objects.extra(tables=["auth_user"]),
        objects.annotate(n=Count("comments")),
    ):
        assert not references.is_everything(limited.query)


class OpenTickets(Query):
    """It adds its condition when it is compiled, as the queries of django-safedelete do."""

    is_limited = False

    def get_compiler(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_limited:
            self.is_limited = True
            self.add_q(Q(status="open"))
        return super().get_compiler(*args, **kwargs)


def test_rows_are_limited_by_a_condition_that_a_query_adds_when_it_is_compiled(
    desk_app: Any,
) -> None:
    ticket = desk_app.Ticket
    limit: QuerySet[Any] = QuerySet(model=ticket, query=OpenTickets(ticket))
    assert "open" in str(visible(limit, ticket, "get_queryset").query)
    rows_of_form = limit_rows(ticket._base_manager.all(), limit.all())
    assert "open" in str(rows_of_form.query)
