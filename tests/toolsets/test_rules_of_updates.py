"""Rules of the site that an update keeps, also those about values that it does not change."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError

from django_mcp.toolsets import ModelToolset
from tests.toolsets.conftest import Desk, ToolFailed
from tests.toolsets.toolsets import meetings, sections


@pytest.fixture
def talk(desk: Desk) -> Any:
    """A meeting of May 1, with a visible and a hidden guest."""
    models = desk.models
    north = models.Team.objects.get(name="north")
    south = models.Team.objects.get(name="south")
    first = models.Section.objects.create(number=1, name="First", team=north)
    models.Section.objects.create(number=2, name="Second", team=north)
    hidden = models.Section.objects.create(number=3, name="Hidden", team=south)
    day = date(2026, 5, 1)
    meeting = models.Meeting.objects.create(slug="a", start=day, end=day, section=first)
    meeting.guests.set([first, hidden])
    return meeting


def served(desk: Desk, **attributes: Any) -> Any:
    return desk.serve(meetings(desk.models, **attributes), sections(desk.models))


def test_update_is_refused_by_the_model_where_the_error_names_another_field(
    desk: Desk, talk: Any
) -> None:
    call = served(desk, write_fields=["start", "end"])
    with pytest.raises(ToolFailed, match=r"^end: It ends before it starts\.$"):
        call("update_meeting", pk=talk.pk, start="2026-05-02")
    talk.refresh_from_db()
    assert talk.start == date(2026, 5, 1)


def test_update_is_refused_by_the_form_where_the_error_names_another_field(
    desk: Desk, talk: Any
) -> None:
    class MeetingForm(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = desk.models.Meeting
            fields = ("slug", "kind")

        def clean(self) -> None:
            if self.cleaned_data["slug"] == "workshop":
                raise ValidationError({"kind": "A workshop is no talk."})

    call = served(desk, form_class=MeetingForm)
    with pytest.raises(ToolFailed, match=r"^kind: A workshop is no talk\.$"):
        call("update_meeting", pk=talk.pk, slug="workshop")
    talk.refresh_from_db()
    assert talk.slug == "a"


def test_update_of_a_date_is_refused_where_another_row_has_the_slug_on_it(
    desk: Desk, talk: Any
) -> None:
    day = date(2026, 4, 30)
    desk.models.Meeting.objects.create(slug="a", start=day, end=day, section=talk.section)
    call = served(desk, write_fields=["slug", "start"])
    with pytest.raises(ToolFailed, match="^slug: Slug must be unique for Start date"):
        call("update_meeting", pk=talk.pk, start="2026-04-30")
    talk.refresh_from_db()
    assert talk.start == date(2026, 5, 1)


def test_update_leaves_a_stale_value_that_only_the_model_rejects(desk: Desk, talk: Any) -> None:
    class MeetingForm(forms.ModelForm):  # type: ignore[type-arg]
        slug = forms.CharField()

        class Meta:
            model = desk.models.Meeting
            fields = ("slug", "end")

    desk.models.Meeting.objects.filter(pk=talk.pk).update(slug="not a slug")
    call = served(desk, form_class=MeetingForm)
    assert call("update_meeting", pk=talk.pk, end="2026-05-03")["end"] == "2026-05-03"
    with pytest.raises(ToolFailed, match="^slug: Enter a valid"):
        call("update_meeting", pk=talk.pk, slug="no slug either")


def test_update_keeps_hidden_links_of_a_row_with_a_stale_value(desk: Desk, talk: Any) -> None:
    desk.models.Meeting.objects.filter(pk=talk.pk).update(kind="retired")
    call = served(desk, write_fields=["kind", "guests"])
    second = desk.models.Section.objects.get(number=2)
    call("update_meeting", pk=talk.pk, guests=[second.pk])
    assert {guest.name for guest in talk.guests.all()} == {"Second", "Hidden"}


def test_row_of_an_update_can_be_pickled(desk: Desk, talk: Any) -> None:
    import pickle

    sizes = []

    def perform_update(self: Any, frame: Any, form: Any) -> None:
        sizes.append(len(pickle.dumps(form.instance)))
        form.save()

    call = served(desk, write_fields=["end"], perform_update=perform_update)
    call("update_meeting", pk=talk.pk, end="2026-05-03")
    assert len(sizes) == 1


def test_form_may_choose_rows_that_are_no_field_of_the_model(desk: Desk, talk: Any) -> None:
    noted: list[Any] = []

    class MeetingForm(forms.ModelForm):  # type: ignore[type-arg]
        informed = forms.ModelMultipleChoiceField(desk.models.Section.objects.all())

        class Meta:
            model = desk.models.Meeting
            fields = ("end",)

    def perform_update(self: Any, frame: Any, form: Any) -> None:
        noted.extend(row.name for row in form.cleaned_data["informed"])
        form.save()

    call = served(desk, form_class=MeetingForm, perform_update=perform_update)
    call("update_meeting", pk=talk.pk, informed=[talk.section.pk])
    assert noted == ["First"]


def test_update_keeps_a_text_that_its_field_would_write_in_another_way(desk: Desk) -> None:
    team = desk.models.Team.objects.get(name="north")
    customer = desk.models.Customer.objects.create(name=" Alder\n", team=team)

    class Customers(ModelToolset):
        model = desk.models.Customer
        operations = ("update",)
        permissions = None
        fields = ("pk", "name")
        write_fields = ("name", "email")

    desk.serve(Customers)("update_customer", pk=customer.pk, email="alder@example.org")
    customer.refresh_from_db()
    assert customer.name == " Alder\n"
