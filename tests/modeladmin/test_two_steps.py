"""Deletion and actions: a preview, a confirmation, questions to the user, pages and files."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.modeladmin import admin_tools, html_forms
from django_mcp.testing import SyncClient, accept, decline
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import TICKET, read


def test_preview_says_what_is_deleted_and_its_confirmation_deletes(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    asked = read(ask(root, "delete", model=TICKET, pk=ticket.pk))
    assert asked["preview"]["counts"] == {"tickets": 1, "comments": 2}
    assert Ticket.objects.count() == 1
    done = read(ask(root, "delete", model=TICKET, pk=ticket.pk, confirm=asked["confirm"]))
    assert done["done"] is True
    assert done["messages"] == [f"The ticket “{ticket}” was deleted successfully."]
    assert not Ticket.objects.exists()
    assert LogEntry.objects.get().action_flag == DELETION


def test_preview_is_refused_after_a_change(ask: Ask, root: User, ticket: Ticket) -> None:
    confirm = read(ask(root, "delete", model=TICKET, pk=ticket.pk))["confirm"]
    Ticket.objects.update(priority="low")
    result = ask(root, "delete", model=TICKET, pk=ticket.pk, confirm=confirm)
    result.assert_error("Something has changed")
    confirm = read(ask(root, "delete", model=TICKET, pk=ticket.pk))["confirm"]
    Comment.objects.create(ticket=ticket, text="third")
    result = ask(root, "delete", model=TICKET, pk=ticket.pk, confirm=confirm)
    result.assert_error("Something has changed")
    assert Ticket.objects.exists()


def test_preview_is_refused_to_others_and_for_others(ask: Ask, root: User, ticket: Ticket) -> None:
    eve = User.objects.create_superuser("eve")
    other = Ticket.objects.create(customer=ticket.customer, subject="Other")
    confirm = read(ask(root, "delete", model=TICKET, pk=ticket.pk))["confirm"]
    wrong: list[tuple[User, str, dict[str, Any]]] = [
        (eve, "delete", {"pk": ticket.pk}),
        (root, "delete", {"pk": other.pk}),
        (root, "run_action", {"action": "close", "pks": [ticket.pk]}),
    ]
    for user, tool, arguments in wrong:
        result = ask(user, tool, model=TICKET, confirm=confirm, **arguments)
        result.assert_error("not of a preview of this call")
    result = ask(root, "delete", model=TICKET, pk=ticket.pk, confirm="x")
    result.assert_error("not of a preview of this call")


def test_what_else_may_not_be_deleted_is_an_error(ask: Ask, staff: Staff, ticket: Ticket) -> None:
    sam = staff("helpdesk.view_customer", "helpdesk.delete_customer")
    result = ask(sam, "delete", model="helpdesk.Customer", pk=ticket.customer_id)
    result.assert_error("you may not delete: ticket")


def test_client_that_can_be_asked_is_asked(server: Server, root: User, ticket: Ticket) -> None:
    with SyncClient(server, user=root, elicitation=decline()) as client:
        result = client.call("delete", model=TICKET, pk=ticket.pk)
        result.assert_input_requested("Delete #").assert_error("did not confirm")
    with SyncClient(server, user=root, elicitation=accept(sure=False)) as client:
        client.call("delete", model=TICKET, pk=ticket.pk).assert_error("did not confirm")
    assert Ticket.objects.exists()
    with SyncClient(server, user=root, elicitation=accept(sure=True)) as client:
        client.call("delete", model=TICKET, pk=ticket.pk).assert_ok()
    assert not Ticket.objects.exists()


def test_user_who_loses_their_rights_while_they_are_asked_changes_nothing(
    server: Server, root: User, ticket: Ticket
) -> None:
    async def lose(*_: Any) -> Any:
        await User.objects.aupdate(is_staff=False)
        return accept(sure=True)

    with SyncClient(server, user=root, elicitation=lose) as client:
        result = client.call("delete", model=TICKET, pk=ticket.pk)
    assert result.is_error
    assert Ticket.objects.exists()


def run(ask: Ask, user: User, action: str, *tickets: Ticket, **arguments: Any) -> Any:
    """Run an action with its preview."""
    target = {"model": TICKET, "action": action, "pks": [each.pk for each in tickets]}
    given = {name: it for name, it in arguments.items() if name == "filters"}
    confirm = read(ask(user, "run_action", **target, **given))["confirm"]
    return ask(user, "run_action", **target, confirm=confirm, **arguments)


def test_action_runs_after_its_preview(ask: Ask, root: User, ticket: Ticket) -> None:
    other = Ticket.objects.create(customer=ticket.customer, subject="Other")
    done = read(run(ask, root, "close", ticket))
    assert done == {"done": True, "messages": ["warning: 1 closed."]}
    assert [*Ticket.objects.filter(status="closed")] == [ticket]
    other.refresh_from_db()
    assert other.status == "open"


def test_action_with_a_page_asks_for_its_fields(ask: Ask, root: User, ticket: Ticket) -> None:
    target = Customer.objects.create(name="Umbrella", email="u@example.org", city="Linz")
    asked = read(run(ask, root, "move", ticket))
    assert asked["done"] is False
    assert "Move 1 tickets" in asked["page"]["text"] or asked["page"]["fields"]
    assert asked["page"]["required"] == ["customer", "reason"]
    options = asked["page"]["fields"]["customer"]["oneOf"]
    assert {"const": str(target.pk), "title": "Umbrella"} in options
    form = {"customer": target.pk, "reason": "x"}
    confirm = asked["confirm"]
    arguments = {"model": TICKET, "action": "move", "pks": [ticket.pk], "confirm": confirm}
    result = ask(root, "run_action", **arguments, form=form)
    result.assert_error("reason: Ensure this value has at least 3 characters")
    result = ask(root, "run_action", **arguments, form={**form, "reason": "sold", "odd": 1})
    result.assert_error("odd: the page asks for customer, reason")
    done = read(ask(root, "run_action", **arguments, form={**form, "reason": "sold"}))
    assert done == {"done": True, "messages": ["Moved."]}
    ticket.refresh_from_db()
    assert ticket.customer == target


def test_action_with_a_file_returns_it(ask: Ask, root: User, ticket: Ticket) -> None:
    result = run(ask, root, "export", ticket).assert_ok()
    (block,) = result["content"]
    assert block["resource"]["mimeType"] == "text/csv"
    assert block["resource"]["text"] == "Printer,open\r\n"


def test_page_of_delete_selected_is_confirmed_by_the_preview(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    done = read(run(ask, root, "delete_selected", ticket))
    assert done["messages"] == ["Successfully deleted 1 ticket."]
    assert not Ticket.objects.exists()


def test_action_that_fails_changes_nothing(ask: Ask, root: User, ticket: Ticket) -> None:
    run(ask, root, "break_down", ticket).assert_error("failed unexpectedly")
    ticket.refresh_from_db()
    assert ticket.status == "open"


def test_action_needs_objects_of_the_list(ask: Ask, root: User, ticket: Ticket) -> None:
    arguments = {"model": TICKET, "action": "close"}
    result = ask(root, "run_action", **arguments, pks=[ticket.pk, 999])
    result.assert_error("The list does not show 999")
    ask(root, "run_action", **arguments, pks=["x"]).assert_error("no keys of this model")
    filters = {"status__exact": "closed"}
    result = ask(root, "run_action", **arguments, pks=[ticket.pk], filters=filters)
    result.assert_error("The list does not show")
    result = ask(root, "run_action", model=TICKET, action="clos", pks=[ticket.pk])
    result.assert_error("did you mean 'close'?")


def test_approval_waits_at_the_second_step(root: User, ticket: Ticket) -> None:
    server = Server("careful")
    admin_tools(backstage.site, server=server, prefix="", approval="helpdesk.approve_refund")
    with SyncClient(server, user=root, elicitation=accept(sure=True)) as client:
        preview = client.call("delete", model=TICKET, pk=ticket.pk).assert_ok()
        confirm = read(preview)["confirm"]
        result = client.call("delete", model=TICKET, pk=ticket.pk, confirm=confirm)
        result.assert_waits_for_approval()
        client.call("search", model=TICKET).assert_ok()
    assert Ticket.objects.exists()


def test_text_area_of_a_page_is_sent_without_its_first_line_break() -> None:
    form = html_forms.of_page(
        '<form method="post"><input type="hidden" name="action" value="close">'
        '<textarea name="reason">\n\nToo late.</textarea><textarea name="note">\n</textarea></form>'
    )
    assert form is not None
    data, _files = form.sent({}, lambda _place, position: position)
    assert data["reason"] == "\nToo late."
    assert data["note"] == ""
