"""Keys of related rows: foreign keys to another column, and primary keys that are relations."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.toolsets.conftest import Desk
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
