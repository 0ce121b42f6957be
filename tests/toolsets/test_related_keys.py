"""Keys of related rows: foreign keys to another column, and primary keys that are relations."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_mcp import ConfigurationError, Server
from django_mcp.testing import Client
from django_mcp.toolsets import ModelToolset
from django_mcp.toolsets.access import limit_rows
from tests.toolsets.conftest import Caller, Desk
from tests.toolsets.toolsets import meetings, sections


@pytest.fixture
def crossed(desk: Desk) -> Desk:
    """Two sections, one of each team: the number of each is the primary key of the other."""
    models = desk.models
    north = models.Team.objects.get(name="north")
    south = models.Team.objects.get(name="south")
    models.Section.objects.create(pk=1, number=2, name="Open", team=north)
    models.Section.objects.create(pk=2, number=1, name="Closed", team=south)
    day = date(2026, 5, 1)
    for slug, number in (("open", 2), ("closed", 1)):
        models.Meeting.objects.create(slug=slug, start=day, end=day, section_id=number)
    return desk


def rows_of(model: Any, *fields: str, **attributes: Any) -> type[ModelToolset]:
    """All rows of a model."""
    declared = {"model": model, "operations": ["list", "get"], "fields": fields, **attributes}
    return type("Rows", (ModelToolset,), declared)


def test_foreign_key_with_to_field_shows_visible_related_rows_only(crossed: Desk) -> None:
    call = crossed.serve(meetings(crossed.models), sections(crossed.models))
    shown: dict[str, Any] = {}
    for row in call("list_meetings")["items"]:
        shown[row["slug"]] = (row["section"], row["section__name"])
    assert shown == {"open": (2, "Open"), "closed": (None, None)}


def test_filter_of_a_foreign_key_with_to_field_finds_visible_related_rows_only(
    crossed: Desk,
) -> None:
    call = crossed.serve(meetings(crossed.models), sections(crossed.models))
    assert [row["slug"] for row in call("list_meetings", section=2)["items"]] == ["open"]
    assert call("list_meetings", section=1)["items"] == []


VIEWER = Caller("north", "toolset_desk.view_profile")
"""It may not view teams."""


@pytest.fixture
def profiles(desk: Desk) -> list[int]:
    """Three profiles, each with the primary key of a team."""
    desk.models.Team.objects.create(name="west")
    teams = desk.models.Team.objects.order_by("pk")
    for team in teams:
        desk.models.Profile.objects.create(team=team, text=team.name)
    return [team.pk for team in teams]


@pytest.mark.parametrize("name", ["pk", "team"])
def test_primary_key_that_is_a_relation_is_shown_where_the_related_row_is_hidden(
    desk: Desk, profiles: list[int], name: str
) -> None:
    call = desk.serve(rows_of(desk.models.Profile, name, "text", "team__name"))
    shown = [(row[name], row["team__name"]) for row in call("list_profiles", VIEWER)["items"]]
    assert shown == [(key, None) for key in profiles]
    row = call("get_profile", VIEWER, **{name: profiles[1]})
    assert row == {name: profiles[1], "text": "south", "team__name": None}


@pytest.mark.parametrize("name", ["pk", "team"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_pages_sorted_by_a_primary_key_that_is_a_relation_have_all_rows(
    desk: Desk, profiles: list[int], name: str, sign: str
) -> None:
    kind = rows_of(desk.models.Profile, name, "text", ordering=[sign + name], page_size=1)
    call = desk.serve(kind)
    seen = []
    page = call("list_profiles", VIEWER)
    while True:
        seen += [row[name] for row in page["items"]]
        if page["next_cursor"] is None:
            break
        page = call("list_profiles", VIEWER, cursor=page["next_cursor"])
    assert seen == sorted(profiles, reverse=sign == "-")


def completed(call: Any, uri: str, argument: str, typed: str) -> list[str]:
    async def run() -> Any:
        async with Client(call.server, user=Caller()) as client:
            reference = {"type": "ref/resource", "uri": uri}
            return (await client.complete(reference, argument, typed))["values"]

    values: list[str] = async_to_sync(run)()
    return values


def test_primary_key_that_is_a_relation_is_completed(desk: Desk, profiles: list[int]) -> None:
    call = desk.serve(rows_of(desk.models.Profile, "pk", "text"))
    key = str(profiles[1])
    assert key in completed(call, "profile://{pk}", "pk", key)


def test_primary_key_of_a_model_with_several_tables_is_completed(desk: Desk) -> None:
    team = desk.models.Team.objects.get(name="north")
    for code in ("Aa", "Ab", "Ba"):
        desk.models.Bolt.objects.create(code=code, name="bolt", team=team)
    call = desk.serve(rows_of(desk.models.Bolt, "pk", "length"))
    assert completed(call, "bolt://{pk}", "pk", "A") == ["Aa", "Ab"]


@pytest.mark.parametrize(
    ("name", "lookup", "remedy"),
    [
        ("section", "range", "'section__number'"),
        ("section__team", "range", "'section__team__id'"),
    ],
)
def test_lookup_that_a_foreign_key_lacks_is_refused(
    desk_app: Any, name: str, lookup: str, remedy: str
) -> None:
    fields = ["pk", name]
    kind = meetings(desk_app, fields=fields, filter_fields={name: [lookup]})
    possible = "exact, in, isnull, gt, gte, lt, lte"
    with pytest.raises(ConfigurationError) as refused:
        kind.__mcp_register__(Server("meetings"))
    assert f"Possible are: {possible}. A foreign key has no others: name {remedy}" in str(
        refused.value
    )


@pytest.mark.parametrize(
    "attributes", [{"filter_fields": {"pk": ["contains"]}}, {"search_fields": ["pk"]}]
)
def test_text_lookup_of_a_key_that_is_a_relation_is_refused(
    desk_app: Any, attributes: dict[str, Any]
) -> None:
    kind = rows_of(desk_app.Bolt, "pk", "length", **attributes)
    with pytest.raises(ConfigurationError, match="name 'code' in its place"):
        kind.__mcp_register__(Server("bolts"))


@pytest.mark.parametrize("lookup", ["exact", "in", "isnull", "gt", "gte", "lt", "lte"])
@pytest.mark.parametrize("user", [Caller(), Caller("north", "toolset_desk.view_meeting")])
def test_lookups_of_a_foreign_key_are_answered(crossed: Desk, lookup: str, user: Caller) -> None:
    call = crossed.serve(meetings(crossed.models, filter_fields={"section": [lookup]}))
    argument = "section" if lookup == "exact" else f"section__{lookup}"
    value: Any = {"in": [2], "isnull": False}.get(lookup, 2)
    expected = {"exact": 1, "in": 1, "gt": 0, "gte": 1, "lt": 1}.get(lookup, 2)
    found = call("list_meetings", user, **{argument: value})["items"]
    assert len(found) == (expected if not user.permissions else 0)


def test_limit_of_rows_keeps_the_order_of_distinct_rows(desk: Desk) -> None:
    meetings_of_desk = desk.models.Meeting.objects
    latest = meetings_of_desk.order_by("slug", "-start").distinct("slug")
    limited = limit_rows(meetings_of_desk.all(), latest)
    conditions: Any = limited.query.where.children
    (lookup,) = conditions
    assert lookup.rhs.order_by == ("slug", "-start")
    assert lookup.rhs.distinct_fields == ("slug",)


def test_limit_of_rows_has_the_first_of_each_group(crossed: Desk) -> None:
    if crossed.connection.vendor != "postgresql":
        pytest.skip("Only PostgreSQL has DISTINCT ON.")
    objects = crossed.models.Meeting.objects
    section = crossed.models.Section.objects.first()
    for day in (date(2026, 4, 1), date(2026, 6, 1), date(2026, 5, 2)):
        objects.create(slug="open", start=day, end=day, section=section)
    latest = objects.order_by("slug", "-start").distinct("slug")
    limited = limit_rows(objects.filter(slug="open"), latest)
    assert [row.start for row in limited] == [date(2026, 6, 1)]
