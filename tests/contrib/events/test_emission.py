"""What is written when something happens: one row in the transaction of the change, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pydantic import BaseModel

from django_mcp import ConfigurationError, Frame, Server
from django_mcp.contrib.events import Event, event, interest, occurrences
from django_mcp.contrib.events.models import Occurrence
from example_site.helpdesk.models import Customer, Ticket
from tests.contrib.events.conftest import Note, TicketData, close, ticket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember for long in which events somebody is interested."""
    monkeypatch.setattr(interest, "FRESH", 600.0)


def queries(change: Any) -> list[str]:
    connection = transaction.get_connection()
    with CaptureQueriesContext(connection) as captured:
        change()
    return [query["sql"] for query in captured]


def test_save_without_interest_costs_no_query_more(
    remembered: None, closed: Event, customer: Customer, ann: User
) -> None:
    interest.HERE.read()
    row = ticket(customer, ann)
    row.status = Ticket.Status.CLOSED
    assert len(queries(row.save)) == 1
    assert not Occurrence.objects.exists()


def test_answer_is_as_old_as_its_query(noted: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0

    def query(execute: Any, *args: Any) -> Any:
        nonlocal now
        now += 5.0
        return execute(*args)

    monkeypatch.setattr(interest, "FRESH", 2.0)
    monkeypatch.setattr(interest, "time", SimpleNamespace(monotonic=lambda: now))
    interest.HERE.forget()
    with transaction.get_connection().execute_wrapper(query):
        assert not interest.HERE.has(("desk", noted.name))
    monkeypatch.setattr(interest.HERE, "forget", lambda: None)
    interest.begin("desk", noted.name)  # In another process, which makes this one forget nothing.
    assert interest.HERE.has(("desk", noted.name))


def test_save_that_emits_costs_a_look_at_the_row_and_an_insert_more(
    remembered: None, closed: Event, customer: Customer, ann: User
) -> None:
    interest.begin("desk", closed.name)
    interest.HERE.read()
    row = Ticket.objects.get(pk=ticket(customer, ann).pk)
    row.status = Ticket.Status.CLOSED
    made = [sql for sql in queries(row.save) if not sql.startswith(("BEGIN", "COMMIT"))]
    assert [sql.split()[0] for sql in made] == ["SELECT", "UPDATE", "INSERT"]


def test_condition_is_an_event_once_when_it_becomes_true(
    closed: Event, customer: Customer, ann: User
) -> None:
    interest.begin("desk", closed.name)
    row = ticket(customer, ann)
    assert Occurrence.objects.count() == 0
    close(row)
    row.subject = "Still closed"
    row.save()
    again = Ticket.objects.get(pk=row.pk)
    again.save()
    assert Occurrence.objects.count() == 1
    again.status = Ticket.Status.OPEN
    again.save()
    close(again)
    assert Occurrence.objects.count() == 2


def test_field_that_is_not_saved_makes_no_condition_true(
    closed: Event, customer: Customer, ann: User
) -> None:
    interest.begin("desk", closed.name)
    row = Ticket.objects.get(pk=ticket(customer, ann).pk)
    row.status = Ticket.Status.CLOSED
    row.save(update_fields=["subject"])
    assert Occurrence.objects.count() == 0
    row.save(update_fields=["status"])
    assert Occurrence.objects.count() == 1


def test_change_that_was_rolled_back_is_an_event_when_it_is_saved_again(
    closed: Event, customer: Customer, ann: User
) -> None:
    interest.begin("desk", closed.name)
    row = Ticket.objects.get(pk=ticket(customer, ann).pk)
    with transaction.atomic():
        close(row)
        transaction.set_rollback(True)
    close(row)
    assert Occurrence.objects.count() == 1


def test_condition_is_compared_with_what_others_have_saved(
    closed: Event, customer: Customer, ann: User
) -> None:
    interest.begin("desk", closed.name)
    row = Ticket.objects.get(pk=ticket(customer, ann, status="closed").pk)
    Ticket.objects.filter(pk=row.pk).update(status="open")
    before = Occurrence.objects.count()
    row.refresh_from_db()
    close(row)
    assert Occurrence.objects.count() == before + 1


def test_object_that_was_loaded_before_the_interest_is_compared_with_its_row(
    closed: Event, customer: Customer, ann: User
) -> None:
    row = Ticket.objects.get(pk=ticket(customer, ann, status="closed").pk)
    other = Ticket.objects.get(pk=ticket(customer, ann).pk)
    interest.begin("desk", closed.name)
    row.save()
    assert Occurrence.objects.count() == 0
    close(other)
    assert Occurrence.objects.count() == 1


def test_rolled_back_change_is_no_event(closed: Event, customer: Customer, ann: User) -> None:
    interest.begin("desk", closed.name)
    row = ticket(customer, ann)
    with transaction.atomic():
        close(row)
        transaction.set_rollback(True)
    assert not Occurrence.objects.exists()


def test_fixture_is_no_event(closed: Event, customer: Customer, ann: User, tmp_path: Any) -> None:
    interest.begin("desk", closed.name)
    ticket(customer, ann, status="closed")
    count = Occurrence.objects.count()
    path = tmp_path / "tickets.json"
    call_command("dumpdata", "helpdesk.ticket", output=path)
    Ticket.objects.all().delete()
    call_command("loaddata", path, verbosity=0)
    assert Occurrence.objects.count() == count


def test_payload_is_checked_when_it_is_emitted(noted: Event) -> None:
    interest.begin("desk", noted.name)
    with pytest.raises(ValueError, match="desk"):
        noted.emit({"text": "no desk"})
    assert noted.emit({"desk": "a"}, id="n1") == "n1"
    assert noted.emit(Note(desk="a"))
    assert Occurrence.objects.count() == 2


@pytest.mark.parametrize("name", ["заказ-5", "a\nb", " a", "\x00", "\udc80", "x" * 201])
def test_id_that_no_header_can_have_is_refused(noted: Event, name: str) -> None:
    interest.begin("desk", noted.name)
    with pytest.raises(ValueError, match="printable characters of ASCII"):
        noted.emit({"desk": "a"}, id=name)
    assert not Occurrence.objects.exists()


@pytest.mark.parametrize("value", [{"number": float("nan")}, {"extra": {"text": "\udc80"}}])
def test_payload_that_is_no_json_is_refused(server: Server, value: dict[str, Any]) -> None:
    class Measured(BaseModel):
        number: float = 0
        extra: dict[str, Any] = {}

    measured = event("measured", payload=Measured, server=server)
    measured.__mcp_register__(server)
    interest.begin("desk", measured.name)
    with pytest.raises(ValueError, match="The payload of the event measured is no JSON"):
        measured.emit(value)
    assert not Occurrence.objects.exists()


def test_position_follows_the_order_of_commits(noted: Event) -> None:
    interest.begin("desk", noted.name)
    first, second = (noted.emit({"desk": "a"}) for _ in range(2))
    early = Occurrence.objects.get(event_id=first)
    # As if its transaction was still open while others are read.
    Occurrence.objects.filter(pk=early.pk).delete()
    batch = occurrences.after("desk", noted.name, 0, 10)
    assert [each.event_id for each in batch.occurrences] == [second]
    early.save(force_insert=True)
    following = occurrences.after("desk", noted.name, batch.position, 10)
    assert [each.event_id for each in following.occurrences] == [first]
    assert following.position > batch.position


def test_numbering_ends_while_others_write(noted: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    interest.begin("desk", noted.name)
    rounds: list[int] = []

    @contextmanager
    def busy(using: str) -> Iterator[None]:
        with transaction.atomic(using=using):
            yield
        rounds.append(len(rounds))
        assert len(rounds) < 10
        noted.emit({"desk": "b"})

    noted.emit({"desk": "a"})
    monkeypatch.setattr(occurrences, "transaction", SimpleNamespace(atomic=busy))
    occurrences.number()

    assert rounds == [0]
    assert Occurrence.objects.filter(position=None).count() == 1


def test_many_occurrences_are_numbered_in_several_rounds(
    noted: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occurrences, "AT_ONCE", 2)
    interest.begin("desk", noted.name)
    before = occurrences.last_position()
    for _ in range(5):
        noted.emit({"desk": "a"})

    assert occurrences.last_position() == before + 5


def test_pruned_occurrences_leave_a_gap(noted: Event) -> None:
    interest.begin("desk", noted.name)
    noted.emit({"desk": "a"})
    occurrences.number()
    assert occurrences.prune() == 0
    Occurrence.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert occurrences.prune() == 1
    assert occurrences.after("desk", noted.name, 0, 10).is_truncated
    assert not occurrences.after("desk", noted.name, occurrences.last_position(), 10).is_truncated


def test_event_that_is_not_registered_cannot_happen() -> None:
    with pytest.raises(ConfigurationError, match="not registered"):
        event("note.added", payload=Note).emit({"desk": "a"})


def declare(**options: Any) -> Any:
    return event("ticket.saved", model=Ticket, **options)


def without_return(self: Any, instance: Any, frame: Frame) -> None:
    """Return nothing."""


def payload(self: Any, instance: Any, frame: Frame) -> TicketData | None:
    return None


async def asynchronous(self: Any, instance: Any, frame: Frame) -> TicketData | None:
    return None


@pytest.mark.parametrize(
    ("options", "members", "message"),
    [
        ({}, {}, "without payload"),
        ({}, {"payload": without_return}, "without the type"),
        ({}, {"payload": asynchronous}, "async"),
        ({}, {"payload": payload, "get_query": payload}, "get_query"),
        ({}, {"payload": payload, "__annotations__": {"shop": int}}, "no field of Ticket"),
        ({"on": "deleted"}, {"payload": payload}, "may_receive"),
        ({"on": "created", "when": bool}, {"payload": payload}, "when"),
        ({"on": "savd"}, {"payload": payload}, "savd"),
        ({"delivery": ["mail"]}, {"payload": payload}, "mail"),
    ],
)
def test_mistake_in_a_declaration_is_named(
    options: dict[str, Any], members: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        declare(**options)(type("Saved", (), members))


def misses_frame(self: Any, instance: Any) -> TicketData | None:
    return None


def takes_nothing(self: Any) -> Any:
    return None


def needs_name(self: Any, name: str) -> None:
    return None


async def ais_paid(ticket: Any) -> bool:
    return False


def of_desk(arguments: Any, data: Any) -> bool:
    return True


async def aof_desk(arguments: Any, data: Any, frame: Frame) -> bool:
    return False


@pytest.mark.parametrize(
    ("options", "members", "message"),
    [
        ({"when": lambda: True}, {}, "when of .*'ticket.saved'.* is called with the object alone"),
        ({"when": needs_name}, {}, "when of .* let it take the object"),
        ({"when": ais_paid}, {}, "when of .* is async: write def"),
        ({"when": "is_paid"}, {}, "when of .* is 'is_paid', which is no function"),
        ({}, {"payload": misses_frame}, r"payload of .* write payload\(self, instance, frame\)"),
        ({}, {"get_queryset": takes_nothing}, r"write get_queryset\(self, frame\)"),
        ({}, {"matches": payload}, r"write matches\(self, instance\)"),
        ({}, {"may_receive": misses_frame}, r"write may_receive\(self, instance, frame\)"),
        ({}, {"may_receive": staticmethod(payload)}, r"write may_receive\(self"),
        ({}, {"__init__": needs_name}, "The class Saved of .*: leave its parameters out"),
    ],
)
def test_function_that_cannot_be_called_is_named(
    options: dict[str, Any], members: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        declare(**options)(type("Saved", (), {"payload": payload, **members}))


def test_methods_partials_and_builtins_are_called_as_functions() -> None:
    members = {"payload": payload, "may_receive": staticmethod(partial(payload, None))}
    for when in (bool, partial(needs_name, None), Note.model_validate):
        assert declare(when=when)(type("Saved", (), members)).is_complete


@pytest.mark.parametrize("matches", [of_desk, aof_desk, "desk"])
def test_matches_of_a_payload_that_cannot_be_called_is_named(matches: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"matches of the event 'note.added'"):
        event("note.added", payload=Note, matches=matches)


@pytest.mark.parametrize("model", ["helpdesk.Ticket", Note, Ticket.objects])
def test_model_that_is_no_class_of_a_model_is_named(model: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"give a class of Django's models.*get_model"):
        event("ticket.saved", model=model)


def test_name_and_form_are_checked(server: Server) -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        event("order paid", payload=Note)
    with pytest.raises(ConfigurationError, match="neither a payload nor a class"):
        event("order.paid").__mcp_register__(server)
    with pytest.raises(ConfigurationError, match="no object"):
        event("order.paid", payload=int)
    with pytest.raises(ConfigurationError, match="which the payload lacks"):
        event("order.paid", payload=TicketData, arguments=Note)
