"""Adding and changing through the forms of the admin: one transaction, errors at their fields."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import Group, User

from example_site.helpdesk.models import Comment, Customer, Refund, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import TICKET, read

NEW = {"subject": "Screen", "description": "Dark"}


def test_object_is_added_with_its_inlines(ask: Ask, root: User, acme: Customer) -> None:
    rows = [{"text": "first", "author": "root"}, {"text": "second"}]
    result = ask(
        root, "add", model=TICKET, values={**NEW, "customer": acme.pk}, inlines={"comments": rows}
    )
    ticket = Ticket.objects.get()
    added = read(result)
    assert (added["pk"], added["label"]) == (ticket.pk, str(ticket))
    assert added["messages"] == [f"The ticket “{ticket}” was added successfully."]
    texts = Comment.objects.filter(ticket=ticket).values_list("text", "author")
    assert [*texts] == [("first", root.pk), ("second", None)]
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.user) == (ADDITION, root)


def test_related_object_is_given_by_its_label(ask: Ask, root: User, ticket: Ticket) -> None:
    other = Customer.objects.create(name="Umbrella", email="u@example.org", city="Linz")
    values = {"customer": "Umbrella"}
    ask(root, "change", model=TICKET, pk=ticket.pk, values=values).assert_ok()
    ticket.refresh_from_db()
    assert ticket.customer == other


def test_value_is_accepted_as_it_is_shown(ask: Ask, root: User, ticket: Ticket) -> None:
    shown = read(ask(root, "get", model=TICKET, pk=ticket.pk))["values"]
    values = {name: shown[name] for name in ("customer", "subject", "status")}
    ask(root, "change", model=TICKET, pk=ticket.pk, values=values).assert_ok()
    assert LogEntry.objects.get().get_change_message() == "No fields changed."


def test_change_keeps_what_is_left_out(ask: Ask, root: User, ticket: Ticket) -> None:
    ask(root, "change", model=TICKET, pk=ticket.pk, values={"status": "closed"}).assert_ok()
    changed = Ticket.objects.get()
    assert (changed.status, changed.subject, changed.priority) == ("closed", "Printer", "normal")
    assert changed.created == ticket.created
    assert changed.comments.count() == 2


def test_rows_of_an_inline_are_changed_added_and_deleted(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    first, second = ticket.comments.all()
    rows = [{"pk": first.pk, "text": "new"}, {"pk": second.pk, "delete": True}, {"text": "third"}]
    ask(root, "change", model=TICKET, pk=ticket.pk, inlines={"comments": rows}).assert_ok()
    assert [*ticket.comments.values_list("text", flat=True)] == ["new", "third"]
    entry = LogEntry.objects.get()
    assert entry.action_flag == CHANGE
    assert "Deleted comment “second”" in entry.get_change_message()


def test_errors_name_fields_and_rows(ask: Ask, root: User, ticket: Ticket) -> None:
    first = ticket.comments.first()
    assert first is not None
    rows = [{"pk": first.pk, "text": ""}, {"author": root.pk, "text": ""}]
    result = ask(
        root,
        "change",
        model=TICKET,
        pk=ticket.pk,
        values={"status": "odd"},
        inlines={"comments": rows},
    )
    lines = result.assert_error().text.splitlines()
    assert lines[0] == "The form is not valid."
    assert lines[1].startswith("status: Select a valid choice.")
    assert lines[2:] == [
        "comments[0].text: This field is required.",
        "comments[1].text: This field is required.",
    ]
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("values", "inlines", "problem"),
    [
        ({"sbject": "x"}, {}, "did you mean 'subject'?"),
        ({"number_of_comments": "3"}, {}, "number_of_comments: this field is read-only"),
        ({"priority": "high"}, {}, "priority: the page has no such field"),
        ({"customer": "Nobody"}, {}, "no object has the label 'Nobody'"),
        ({"customer": [1]}, {}, "customer: give a key"),
        ({"subject": {"a": 1}}, {}, "subject: this field takes no object"),
        ({"subject": ["a"]}, {}, "subject: this field takes one value"),
        ({}, {"coments": []}, "did you mean 'comments'?"),
        ({}, {"comments": [{"pk": 999, "text": "x"}]}, "comments[0].pk: there is no other row"),
        ({}, {"comments": [{}]}, "comments[0]: a new row needs a value"),
        ({}, {"comments": [{"created": "2026-01-01"}]}, "comments[0].created: this field is read"),
        ({}, {}, "Nothing to change"),
    ],
)
def test_what_the_page_does_not_have_is_an_error(
    ask: Ask, root: User, ticket: Ticket, values: Any, inlines: Any, problem: str
) -> None:
    result = ask(root, "change", model=TICKET, pk=ticket.pk, values=values, inlines=inlines)
    result.assert_error(problem)


def test_hooks_and_messages_of_the_admin_run(ask: Ask, root: User) -> None:
    values = {"name": "Umbrella", "city": "Linz"}
    added = read(ask(root, "add", model="helpdesk.Customer", values=values))
    assert Customer.objects.get().email == "Umbrella@example.org"
    assert added["messages"][0] == "Saved by root"


def test_user_is_added_without_a_password(ask: Ask, root: User) -> None:
    values = {"username": "zoe", "usable_password": "false"}
    ask(root, "add", model="auth.User", values=values).assert_ok()
    assert not User.objects.get(username="zoe").has_usable_password()
    values = {"username": "mia", "password1": "secret", "password2": "secret"}
    result = ask(root, "add", model="auth.User", values=values)
    result.assert_error("password1: passwords are set in the browser")


def test_many_to_many_field_takes_keys_and_labels(ask: Ask, root: User, staff: Staff) -> None:
    sam = staff()
    editors = Group.objects.create(name="Editors")
    others = Group.objects.create(name="Others")
    values = {"groups": ["Editors", others.pk]}
    ask(root, "change", model="auth.User", pk=sam.pk, values=values).assert_ok()
    assert {*sam.groups.all()} == {editors, others}
    ask(root, "change", model="auth.User", pk=sam.pk, values={"groups": []}).assert_ok()
    assert not sam.groups.exists()
    assert User.objects.get(pk=sam.pk).password == sam.password


def test_raw_id_field_takes_a_key(ask: Ask, root: User, ticket: Ticket) -> None:
    values = {"ticket": ticket.pk, "amount": "12.50", "reason": "Late"}
    ask(root, "add", model="helpdesk.Refund", values=values).assert_ok()
    page = read(ask(root, "get", model="helpdesk.Refund", pk=Refund.objects.get().pk))
    assert page["values"]["amount"] == "12.50"
    found = read(ask(root, "autocomplete", model="helpdesk.Refund", field="ticket", text="Prin"))
    assert found["options"] == [{"key": ticket.pk, "label": str(ticket)}]


def test_search_over_a_join_finds_each_row_of_a_raw_id_field_once(
    ask: Ask, root: User, ticket: Ticket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backstage.TicketsOfCaller, "search_fields", ["subject", "comments__text"])
    Comment.objects.update(text=str(ticket))
    arguments = {"model": "helpdesk.Refund", "field": "ticket", "text": str(ticket)}
    found = read(ask(root, "autocomplete", **arguments))
    assert found["options"] == [{"key": ticket.pk, "label": str(ticket)}]
    values = {"ticket": str(ticket), "amount": "12.50", "reason": "Late"}
    ask(root, "add", model="helpdesk.Refund", values=values).assert_ok()


def test_missing_object_is_an_error(ask: Ask, root: User) -> None:
    for tool in ("get", "history", "delete"):
        ask(root, tool, model=TICKET, pk=999).assert_error("There is no such object")
        ask(root, tool, model=TICKET, pk="x'y/_5F").assert_error("There is no such object")


def test_file_is_no_value_of_a_text_field(ask: Ask, root: User, acme: Customer) -> None:
    result = ask(root, "add", model=TICKET, values={**NEW, "subject": {"file": 0}})
    result.assert_error("subject: this field takes no object")
