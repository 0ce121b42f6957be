"""The types that type checkers see: ``scripts/lint`` fails where one is another one."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

from django_mcp import Frame
from django_mcp.contrib.events import Event, event
from django_mcp.contrib.events.testing import assert_event_sent
from example_site.helpdesk.models import Customer, Ticket
from tests.contrib.events.conftest import Note, TicketData


class Closed:
    """A ticket was closed."""

    def payload(self, ticket: Ticket, frame: Frame) -> TicketData:
        return TicketData(number=ticket.pk, subject=ticket.subject)


def test_event_has_the_type_of_its_payload() -> None:
    noted = event("note.added", payload=Note)

    assert_type(noted, Event[Note])
    with pytest.raises(ValueError, match="not registered"):
        noted.emit(Note(desk="a"))
    with pytest.raises(ValueError, match="not registered"):
        noted.emit({"desk": "a"})
    with pytest.raises(ValueError, match="not registered"):
        noted.emit("a")  # type: ignore[arg-type]


def test_event_of_a_class_has_the_type_of_its_model() -> None:
    closed = event("ticket.closed", model=Ticket, when=lambda ticket: ticket.status == "closed")(
        Closed
    )

    assert_type(closed, Event[Ticket])
    with pytest.raises(ValueError, match="not registered"):
        closed.emit(Ticket())
    with pytest.raises(ValueError, match="not registered"):
        closed.emit(Customer())  # type: ignore[arg-type]


def test_event_without_a_type_argument_takes_any_value() -> None:
    def take(either: Event) -> None:
        assert_type(either, Event[Any])

    take(event("note.added", payload=Note))


@pytest.mark.django_db
def test_assertion_takes_each_event(closed: Event[Any]) -> None:
    with assert_event_sent(closed, times=0) as emitted:
        pass

    assert emitted.keys == []
