"""Creating, updating and deleting rows, on every available database."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django import forms
from django.test.utils import CaptureQueriesContext

from django_mcp.testing import accept, decline
from django_mcp.toolsets import writes
from tests.toolsets.conftest import Caller, Desk, ToolFailed
from tests.toolsets.toolsets import customers, new, tickets


@pytest.fixture
def call(desk: Desk) -> Any:
    return desk.serve(tickets(desk.models), customers(desk.models))


def ticket(desk: Desk, number: int) -> dict[str, Any]:
    found: dict[str, Any] = desk.models.Ticket.objects.filter(number=number).values().get()
    return found


def test_create_saves_and_returns_the_row(call: Any, desk: Desk) -> None:
    created = call("create_ticket", **new(desk, price="3.5"))
    assert (created["number"], created["price"]) == (50, "3.50")
    saved = ticket(desk, 50)
    assert saved["is_urgent"] is True  # The default of the model, though a form has none.
    assert (saved["status"], saved["code"]) == ("open", "")


class ChoicesForm(forms.Form):
    alone = forms.ChoiceField(choices=[("a", "A")])
    numbers = forms.ChoiceField(choices=[(1, "One"), (2, "Two")])
    mixed = forms.ChoiceField(choices=[(1, "One"), ("other", "Other")])


def test_choices_have_the_types_of_their_values() -> None:
    parameters = writes.parameters(ChoicesForm, "here")
    assert parameters["alone"].schema["type"] == "string"
    assert parameters["numbers"].schema["type"] == "integer"
    assert parameters["mixed"].schema["type"] == ["integer", "string"]


def test_create_reports_errors_by_field(call: Any, desk: Desk) -> None:
    with pytest.raises(ToolFailed) as rejected:
        call("create_ticket", **new(desk, subject="forbidden", price="1.234"))
    assert sorted(str(rejected.value).splitlines(), reverse=True) == [
        "subject: This subject is forbidden.",
        "price: Ensure that there are no more than 2 decimal places.",
    ]
    with pytest.raises(ToolFailed, match="^number: Ticket with this Number already exists.$"):
        call("create_ticket", **new(desk, number=1))


def test_create_rejects_hidden_related_rows_like_unknown_ones(call: Any, desk: Desk) -> None:
    hidden = desk.models.Customer.objects.get(name="Hidden Ltd")
    errors = set()
    for key in (hidden.pk, 10**6):
        with pytest.raises(ToolFailed) as rejected:
            call("create_ticket", **new(desk, customer=key))
        errors.add(str(rejected.value))
    assert errors == {
        "customer: Select a valid choice. That choice is not one of the available choices."
    }


def test_create_outside_of_the_visible_rows_is_rejected_and_rolled_back(
    call: Any, desk: Desk
) -> None:
    south = desk.models.Team.objects.get(name="south")
    with pytest.raises(ToolFailed, match="would not be visible"):
        call("create_ticket", **new(desk, team=south.pk))
    assert not desk.models.Ticket.objects.filter(number=50).exists()


def test_update_changes_only_what_was_sent(call: Any, desk: Desk) -> None:
    before = ticket(desk, 8)
    updated = call("update_ticket", number=8, subject="Other", is_urgent=False)
    assert updated["subject"] == "Other"
    assert ticket(desk, 8) == {**before, "subject": "Other", "is_urgent": False}


def test_update_sets_null(call: Any, desk: Desk) -> None:
    call("update_ticket", number=1, price=None, due=None)
    assert (ticket(desk, 1)["price"], ticket(desk, 1)["due"]) == (None, None)


def test_null_for_a_column_that_cannot_be_null_is_an_error_of_its_field(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models, write_fields=["data"], operations=["update"]))
    with pytest.raises(ToolFailed, match=r"^data: This field cannot be null\.$"):
        call("update_ticket", number=1, data=None)
    assert ticket(desk, 1)["data"]["color"] == "red"


def test_null_means_not_given_for_a_field_that_cannot_be_empty(call: Any, desk: Desk) -> None:
    updated = call("update_ticket", number=1, subject=None, status=None, price="4.20")
    assert (updated["subject"], updated["status"], updated["price"]) == (
        "Printer 1",
        "open",
        "4.20",
    )
    assert call("list_tickets", number=1, status=None, search=None)["items"][0]["number"] == 1


def test_update_with_nothing_to_change_is_rejected(call: Any) -> None:
    with pytest.raises(ToolFailed, match="send at least one field"):
        call("update_ticket", number=1)


def test_update_ignores_invalid_values_that_it_does_not_change(call: Any, desk: Desk) -> None:
    desk.models.Ticket.objects.filter(number=1).update(status="hidden")
    assert call("update_ticket", number=1, subject="Other")["subject"] == "Other"
    assert ticket(desk, 1)["status"] == "hidden"


def test_update_of_a_hidden_row_is_like_an_unknown_one(call: Any, desk: Desk) -> None:
    for number in (9, 999):
        with pytest.raises(ToolFailed, match=f"^There is no ticket {number}.$"):
            call("update_ticket", number=number, subject="Mine")
    assert ticket(desk, 9)["subject"] == "Hidden 9"


def test_update_cannot_move_a_row_out_of_sight(call: Any, desk: Desk) -> None:
    south = desk.models.Team.objects.get(name="south")
    with pytest.raises(ToolFailed, match="would not be visible"):
        call("update_ticket", number=1, team=south.pk)
    assert ticket(desk, 1)["team_id"] != south.pk


def test_fields_that_are_not_written_are_rejected(call: Any) -> None:
    for name in ("code", "rating", "data", "id", "pk"):
        with pytest.raises(ToolFailed, match="unknown argument"):
            call("update_ticket", number=1, **{name: 1})


def test_object_permission_rejects_writes(desk: Desk) -> None:
    def has_object_permission(self: Any, frame: Any, ticket: Any, operation: str) -> bool:
        return operation == "get"

    call = desk.serve(tickets(desk.models, has_object_permission=has_object_permission))
    with pytest.raises(ToolFailed, match="^You may not create this ticket.$"):
        call("create_ticket", **new(desk))
    with pytest.raises(ToolFailed, match="^You may not update this ticket.$"):
        call("update_ticket", number=1, subject="Other")
    with pytest.raises(ToolFailed, match="^You may not delete this ticket.$"):
        call("delete_ticket", number=1)
    assert desk.models.Ticket.objects.count() == 12


@pytest.mark.parametrize(
    ("tool", "more"), [("update_ticket", {"subject": "X"}), ("delete_ticket", {})]
)
def test_write_of_a_row_that_the_caller_may_not_get_is_like_an_unknown_one(
    desk: Desk, tool: str, more: dict[str, Any]
) -> None:
    def has_object_permission(self: Any, frame: Any, ticket: Any, operation: str) -> bool:
        return operation != "get"

    call = desk.serve(tickets(desk.models, has_object_permission=has_object_permission))
    before = ticket(desk, 1)

    with pytest.raises(ToolFailed, match="^There is no ticket 1.$"):
        call(tool, number=1, **more)

    assert ticket(desk, 1) == before


def test_row_that_the_caller_may_not_get_afterwards_is_not_saved(desk: Desk) -> None:
    def has_object_permission(self: Any, frame: Any, ticket: Any, operation: str) -> bool:
        return not (operation == "get" and ticket.subject == "Sealed")

    call = desk.serve(tickets(desk.models, has_object_permission=has_object_permission))

    with pytest.raises(ToolFailed, match="would not be visible"):
        call("update_ticket", number=1, subject="Sealed")
    with pytest.raises(ToolFailed, match="would not be visible"):
        call("create_ticket", **new(desk, subject="Sealed"))

    assert ticket(desk, 1)["subject"] == "Printer 1"
    assert not desk.models.Ticket.objects.filter(number=50).exists()


def test_own_form_validates_and_saves(desk: Desk) -> None:
    class TicketForm(forms.ModelForm):  # type: ignore[type-arg] # Generic for mypy only.
        note = forms.CharField(required=False, max_length=20, help_text="Kept nowhere")

        class Meta:
            model = desk.models.Ticket
            fields = ["subject", "status"]

        def clean_subject(self) -> str:
            return str(self.cleaned_data["subject"]).upper()

    attributes = {"form_class": TicketForm, "write_fields": None, "operations": ["get", "update"]}
    call = desk.serve(tickets(desk.models, **attributes))
    assert call("update_ticket", number=1, subject="loud", note="x")["subject"] == "LOUD"
    with pytest.raises(ToolFailed, match="unknown argument"):
        call("update_ticket", number=1, price=1)


def test_delete_reports_what_else_is_deleted(call: Any, desk: Desk) -> None:
    assert call("delete_ticket", number=1) == {
        "number": 1,
        "deleted": [{"name": "ticket", "count": 1}, {"name": "comment", "count": 1}],
    }
    assert not desk.models.Ticket.objects.filter(number=1).exists()


def test_delete_of_a_hidden_row_is_like_an_unknown_one(call: Any, desk: Desk) -> None:
    with pytest.raises(ToolFailed, match="^There is no ticket 9.$"):
        call("delete_ticket", number=9)


def test_delete_of_a_protected_row_is_rejected(call: Any, desk: Desk) -> None:
    child = desk.models.Ticket.objects.get(number=2)
    child.parent = desk.models.Ticket.objects.get(number=1)
    child.save()
    with pytest.raises(ToolFailed, match="other rows depend on it") as rejected:
        call("delete_ticket", number=1)
    assert "hidden" not in str(rejected.value)


def test_delete_needs_the_permission_for_everything_that_is_deleted(call: Any, desk: Desk) -> None:
    allowed = ("toolset_desk.delete_ticket", "toolset_desk.view_comment")
    with pytest.raises(ToolFailed, match="other rows depend on it"):
        call("delete_ticket", Caller("north", *allowed), number=1)
    everything = Caller("north", *allowed, "toolset_desk.delete_comment")
    assert call("delete_ticket", everything, number=1)["number"] == 1


def test_delete_of_hidden_rows_is_rejected(desk: Desk) -> None:
    attributes = {"operations": ["get", "delete"]}
    call = desk.serve(customers(desk.models, **attributes), tickets(desk.models))
    models = desk.models
    alder = models.Customer.objects.get(name="Alder")
    models.Ticket.objects.filter(number=9).update(customer=alder)  # Of the other team.
    with pytest.raises(ToolFailed, match="other rows depend on it"):
        call("delete_customer", pk=alder.pk)
    assert models.Customer.objects.filter(pk=alder.pk).exists()


def test_delete_takes_a_limited_number_of_rows_along(desk: Desk) -> None:
    attributes = {"operations": ["get", "delete"], "max_deleted": 3}
    call = desk.serve(customers(desk.models, **attributes))
    alder = desk.models.Customer.objects.get(name="Alder")
    rejected = pytest.raises(ToolFailed, match="More than 3 other rows")
    with CaptureQueriesContext(desk.connection) as queries, rejected:
        call("delete_customer", pk=alder.pk)
    assert not any(query["sql"].startswith("DELETE") for query in queries)


@pytest.mark.parametrize(
    ("answer", "is_deleted"),
    [(accept(delete=True), True), (accept(delete=False), False), (decline(), False)],
)
def test_delete_requests_confirmation(desk: Desk, answer: Any, is_deleted: bool) -> None:
    call = desk.serve(tickets(desk.models, confirm_delete=True))
    calls_seen = []

    def respond(params: Any) -> Any:
        calls_seen.append(params["message"])
        return answer

    rejected = pytest.raises(ToolFailed, match="did not confirm")
    with nullcontext() if is_deleted else rejected:
        call("delete_ticket", client={"elicitation": respond}, number=1)
    assert calls_seen == ["Delete the ticket 1? This deletes 1 ticket, 1 comment."]
    assert desk.models.Ticket.objects.filter(number=1).exists() is not is_deleted


def test_delete_that_nobody_can_confirm_is_rejected(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models, confirm_delete=True))
    with pytest.raises(ToolFailed, match="this client cannot ask"):
        call("delete_ticket", number=1)
    assert desk.models.Ticket.objects.filter(number=1).exists()
