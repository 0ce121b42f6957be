"""Forms as views: the form that is shown, what is sent, and errors at their fields."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.testing import SyncClient
from django_mcp.testing.results import ErrorResponse
from django_mcp.ui import form_view
from django_mcp.ui.base import FRAGMENT
from example_site.helpdesk.models import Customer, Ticket
from tests.spec import spec

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


class TicketForm(forms.ModelForm):  # type: ignore[type-arg]
    """Show a form for a new ticket."""

    class Meta:
        model = Ticket
        fields = ("customer", "subject", "description", "priority")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("subject") == data.get("description"):
            raise ValidationError("Describe what happened.")
        return data


class MeetingForm(forms.Form):
    at = forms.SplitDateTimeField()
    people = forms.IntegerField(max_value=9)
    is_open = forms.BooleanField(required=False, initial=True)
    rooms = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")], required=False)
    owner = forms.CharField(widget=forms.HiddenInput, initial="ann")


@pytest.fixture
def customer() -> Customer:
    return Customer.objects.create(name="Alder", email="a@example.com", city="Leeds")


def html_of(result: Any) -> str:
    return str(result["_meta"][FRAGMENT])


def test_form_is_shown_with_what_the_model_knows(server: Server, customer: Customer) -> None:
    form_view(TicketForm, server=server, title="New ticket")
    client = SyncClient(server)

    result = client.call_tool("ticket_form", {"subject": f"'\"{SCRIPT}", "priority": "high"})
    submit, show = client.list_tools()

    assert '<form data-mcp-tool="submit_ticket"' in html_of(result)
    assert SCRIPT not in html_of(result)
    assert '<option value="high" selected>' in html_of(result)
    assert "call submit_ticket" in result.text
    assert show["annotations"]["readOnlyHint"] is True
    assert show["inputSchema"]["required"] == []
    assert submit["_meta"]["ui"]["visibility"] == ["app"]
    assert Ticket.objects.count() == 0


def test_form_is_saved_as_a_browser_sends_it(server: Server, customer: Customer) -> None:
    form_view(TicketForm, server=server)
    sent = {"customer": str(customer.pk), "subject": "Slow", "description": "x", "priority": "low"}

    result = SyncClient(server).call_tool("submit_ticket", sent)

    ticket = Ticket.objects.get()
    assert (ticket.customer, ticket.subject) == (customer, "Slow")
    assert not result.is_error
    assert result.structured == {"pk": ticket.pk, "text": str(ticket)}
    assert "#" in html_of(result)


@spec("apps-02")
def test_errors_are_shown_at_their_fields(server: Server, customer: Customer) -> None:
    form_view(TicketForm, server=server)
    sent = {"customer": "99999", "subject": SCRIPT, "description": SCRIPT, "priority": "none"}

    result = SyncClient(server).call_tool("submit_ticket", sent)

    assert result.is_error
    assert "customer: Select a valid choice" in result.text
    assert html_of(result).count('class="errorlist"') == 2
    assert "Describe what happened." in html_of(result)
    assert SCRIPT not in html_of(result)
    assert Ticket.objects.count() == 0


def test_arguments_replace_the_initial_values_of_the_code_and_keep_the_others(
    server: Server,
) -> None:
    initial = {"subject": "from the code", "description": "kept"}
    form_view(TicketForm, server=server, form_kwargs=lambda frame: {"initial": initial})

    html = html_of(SyncClient(server).call_tool("ticket_form", {"subject": "from the model"}))

    assert "from the model" in html
    assert "kept" in html
    assert "from the code" not in html
    assert initial == {"subject": "from the code", "description": "kept"}


class TimesForm(forms.Form):
    split = forms.SplitDateTimeField(widget=forms.SplitDateTimeWidget(date_format="%Y-%m-%d"))
    at = forms.DateTimeField(
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    )


@pytest.mark.parametrize("text", ["2026-07-28T12:30:00+02:00", "2026-07-28T10:30:00Z"])
def test_times_of_the_model_are_shown_in_the_format_of_their_inputs(
    server: Server, text: str
) -> None:
    form_view(TimesForm, server=server, on_valid=lambda form, frame: None)

    html = html_of(SyncClient(server).call_tool("times_form", {"split": text, "at": text}))

    assert 'value="2026-07-28T10:30"' in html
    assert 'value="2026-07-28"' in html
    assert 'value="10:30:00"' in html


@pytest.mark.parametrize("name", ["split", "at"])
def test_time_that_cannot_be_read_is_explained_to_the_model(server: Server, name: str) -> None:
    form_view(TimesForm, server=server, on_valid=lambda form, frame: None)

    result = SyncClient(server).call_tool("times_form", {name: "yesterday"})

    assert result.is_error
    assert "yesterday" in result.text


@spec("apps-12")
def test_values_of_every_widget_are_read(server: Server) -> None:
    received: list[Any] = []

    def note(form: Any, frame: Frame) -> str:
        received.append(form.cleaned_data)
        return f"Noted {SCRIPT}"

    form_view(MeetingForm, server=server, on_valid=note)
    sent = {
        "at_0": "2026-07-28",
        "at_1": "10:30",
        "people": 4,
        "is_open": False,
        "rooms": ["a", "b"],
        "owner": "eve",
    }

    result = SyncClient(server).call_tool("submit_meeting", sent)

    (cleaned,) = received
    assert cleaned["at"].isoformat() == "2026-07-28T10:30:00+00:00"
    assert (cleaned["people"], cleaned["is_open"], cleaned["rooms"]) == (4, False, ["a", "b"])
    assert cleaned["owner"] == "ann"
    assert SCRIPT not in html_of(result)


class DueForm(forms.Form):
    due = forms.DateField()
    tags = forms.JSONField(required=False)


def test_values_of_a_model_are_read_as_those_of_a_browser(server: Server) -> None:
    received: list[Any] = []
    form_view(DueForm, server=server, on_valid=lambda form, _: received.append(form.cleaned_data))
    client = SyncClient(server)

    wrong = client.call_tool("submit_due", {"due": 20260728})
    right = client.call_tool("submit_due", {"due": "2026-07-28", "tags": ["a", "b"]})

    assert "due: Enter a valid date." in wrong.text
    assert not right.is_error, right.text
    assert [cleaned["tags"] for cleaned in received] == [["a", "b"]]


class StayWidget(forms.MultiWidget):
    def __init__(self) -> None:
        day = forms.SelectDateWidget(years=range(2030, 2032))
        super().__init__({"on": day, "at": forms.SplitDateTimeWidget})

    def decompress(self, value: Any) -> list[Any]:
        return [None, None]


class StayField(forms.CharField):
    widget = StayWidget

    def clean(self, value: Any) -> str:
        day, at = value
        return f"{day} {at}"


class StayForm(forms.Form):
    stay = StayField()


def test_parts_of_a_part_of_a_widget_are_read(server: Server) -> None:
    received: list[Any] = []
    form_view(StayForm, server=server, on_valid=lambda form, _: received.append(form.cleaned_data))
    sent = {
        "stay_on_year": "2030",
        "stay_on_month": "4",
        "stay_on_day": "4",
        "stay_at_0": "2030-04-05",
        "stay_at_1": "10:30",
    }

    result = SyncClient(server).call_tool("submit_stay", sent)

    assert not result.is_error, result.text
    assert received == [{"stay": "04/04/2030 ['2030-04-05', '10:30']"}]


def test_permission_is_that_of_both_tools(server: Server) -> None:
    form_view(TicketForm, server=server, permission="helpdesk.add_ticket")
    user = User.objects.create_user("guest")

    assert SyncClient(server, user=user).list_tools() == []
    with pytest.raises(ErrorResponse, match="Unknown tool"):
        SyncClient(server, user=user).call_tool("submit_ticket", {"subject": "x"})


def test_form_with_files_is_refused_with_the_reason(server: Server) -> None:
    class UploadForm(forms.Form):
        scan = forms.FileField()

    with pytest.raises(ConfigurationError, match="file field 'scan', and a view can send no files"):
        form_view(UploadForm, server=server, on_valid=lambda form, frame: None)


def test_options_about_what_a_form_changes_are_those_of_the_tool_that_submits(
    server: Server,
) -> None:
    options: dict[str, Any] = {
        "destructive": True,
        "idempotent": True,
        "open_world": False,
        "approval": "helpdesk.add_ticket",
        "log_arguments": ["subject"],
        "task_support": "optional",
    }
    form_view(TicketForm, server=server, **options)

    show: Any = server.components.find("tool", "ticket_form")
    submit: Any = server.components.find("tool", "submit_ticket")
    assert show.annotations == {"readOnlyHint": True}
    assert show.options.keys() == {"ui"}
    assert submit.annotations == {
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert submit.options["approval"].permission == "helpdesk.add_ticket"
    assert submit.options["log_arguments"] == ("subject",)
    assert submit.options["task_support"] == "optional"


def test_arguments_of_the_model_override_initial_values_of_the_site(server: Server) -> None:
    initial = {"subject": "From the site", "description": "From the site"}
    form_view(TicketForm, server=server, form_kwargs=lambda frame: {"initial": initial})

    html = html_of(SyncClient(server).call_tool("ticket_form", {"subject": "From the model"}))

    assert 'value="From the model"' in html
    assert html.count("From the site") == 1
