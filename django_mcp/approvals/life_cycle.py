"""The life cycle of an approval, as one table: which event leads from which status to which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """The client cancelled the task of the call before it was started."""
    RUNNING = "running"
    COMPLETED = "completed"
    """The tool has returned a result, which may be an error."""
    FAILED = "failed"
    """The tool was not called, or its call was answered with a protocol error."""
    LOST = "lost"
    """Whoever ran the call stopped before it stored the outcome: the tool may have run or not."""


class Event(StrEnum):
    APPROVE = "approve"
    DECLINE = "decline"
    EXPIRE = "expire"
    CANCEL = "cancel"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    LOSE = "lose"


LIFE_CYCLE: Mapping[Status, Mapping[Event, Status]] = {
    Status.WAITING: {
        Event.APPROVE: Status.APPROVED,
        Event.DECLINE: Status.DECLINED,
        Event.EXPIRE: Status.EXPIRED,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.APPROVED: {
        Event.START: Status.RUNNING,
        Event.EXPIRE: Status.EXPIRED,
        Event.CANCEL: Status.CANCELLED,
    },
    Status.RUNNING: {
        Event.COMPLETE: Status.COMPLETED,
        Event.FAIL: Status.FAILED,
        Event.LOSE: Status.LOST,
    },
    # One that was only slow still stores what happened. No way leads back to RUNNING.
    Status.LOST: {Event.COMPLETE: Status.COMPLETED, Event.FAIL: Status.FAILED},
    Status.DECLINED: {},
    Status.EXPIRED: {},
    Status.CANCELLED: {},
    Status.COMPLETED: {},
    Status.FAILED: {},
}

OPEN = frozenset({Status.WAITING, Status.APPROVED, Status.RUNNING})
"""Everything else stays as it is, except that the outcome of a lost call may still arrive."""


def sources(event: Event) -> tuple[Status, ...]:
    """Return the statuses in which ``event`` is possible."""
    return tuple(status for status, events in LIFE_CYCLE.items() if event in events)


def target(event: Event) -> Status:
    """Return the status to which ``event`` leads: the same from every source."""
    (found,) = {events[event] for events in LIFE_CYCLE.values() if event in events}
    return found
