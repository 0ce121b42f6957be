"""The life cycle of an approval: its table, and any sequence of events against a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_mcp.approvals import gate, life_cycle
from django_mcp.approvals.life_cycle import LIFE_CYCLE, OPEN, Event, Status
from django_mcp.approvals.models import Approval
from tests.approvals.test_races import new_row
from tests.approvals.worker import approver

LIFETIME = 7 * 24 * 3600.0
LEASE = 60.0
ENDS = {Event.COMPLETE: Status.COMPLETED, Event.FAIL: Status.FAILED}


def test_table_has_every_status_and_every_event() -> None:
    assert {*LIFE_CYCLE} == {*Status}
    assert {event for events in LIFE_CYCLE.values() for event in events} == {*Event}
    for event in Event:
        targets = {events[event] for events in LIFE_CYCLE.values() if event in events}
        assert targets == {life_cycle.target(event)}


def test_no_way_leads_to_a_second_run() -> None:
    reached, new = set(), {Status.RUNNING}
    while new:
        reached |= new
        new = {target for each in new for target in LIFE_CYCLE[each].values()} - reached
    assert life_cycle.sources(Event.START) == (Status.APPROVED,)
    assert Status.APPROVED not in reached


def test_final_status_does_not_change() -> None:
    final = {status for status, events in LIFE_CYCLE.items() if not events}
    assert final == {*Status} - OPEN - {Status.LOST}


class ApprovalMachine(RuleBasedStateMachine):
    """One approval, people, workers that crash, and a clock; beside it, a model of plain values."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.clock = mock.patch.object(timezone, "now", side_effect=lambda: self.now)
        self.clock.start()
        Approval.objects.all().delete()
        # The model.
        self.status = Status.WAITING
        self.decided_by = ""
        self.expires = self.now
        self.lease_ends = self.now
        self.caller_until = self.now
        self.owner: int | None = None
        self.outcome: int | None = None
        self.runs: list[int] = []
        self.workers = 0

    @initialize(four_eyes=st.booleans(), has_user=st.booleans())
    def call(self, four_eyes: bool, has_user: bool) -> None:
        row = new_row()
        row.four_eyes, row.user_key = four_eyes, "ann" if has_user else ""
        row.expires_at = self.expires = self.now + timedelta(seconds=LIFETIME)
        row.save(force_insert=True)
        self.four_eyes, self.has_user = four_eyes, has_user

    def teardown(self) -> None:
        self.clock.stop()

    @property
    def row(self) -> Approval:
        found: Approval = Approval.objects.get()
        return found

    def may(self, name: str) -> bool:
        """Whether the model lets this person decide."""
        if name == "eve":
            return False
        return not self.four_eyes or (self.has_user and name != "ann")

    def is_due(self) -> bool:
        """Whether the next look changes the status: then the same call may be stored again."""
        return (self.lease_ends if self.status == Status.RUNNING else self.expires) <= self.now

    def settle(self) -> None:
        if self.status in (Status.WAITING, Status.APPROVED) and self.expires <= self.now:
            self.status = Status.EXPIRED
        if self.status == Status.RUNNING and self.lease_ends <= self.now:
            self.status = Status.LOST

    @rule(name=st.sampled_from(["ann", "bob", "carol", "eve"]), approves=st.booleans())
    def decide(self, name: str, approves: bool) -> None:
        who = approver(name)
        if name == "eve":
            who.has_perm = lambda permission: False
        event = Event.APPROVE if approves else Event.DECLINE
        waits = self.status == Status.WAITING and self.now < self.expires
        expected = waits and self.may(name)
        assert self.row.decide(who, event, where="page") is expected
        if expected:
            self.decided_by = name
            self.status = Status.APPROVED if approves else Status.DECLINED
            if approves:
                self.expires = self.now + timedelta(seconds=LIFETIME)

    @rule()
    def wait_with_the_client(self) -> None:
        until = self.now + timedelta(seconds=LEASE)
        self.row.note_caller(until)
        if self.status == Status.WAITING:
            self.caller_until = until
        if self.status in (Status.WAITING, Status.APPROVED):
            assert self.row.has_caller is (self.now < self.caller_until)

    @rule()
    def start(self) -> None:
        self.workers += 1
        until = self.now + timedelta(seconds=LEASE)
        expected = self.status == Status.APPROVED and self.now < self.expires
        assert self.row.start(f"worker-{self.workers}", until) is expected
        if expected:
            self.status, self.owner, self.lease_ends = Status.RUNNING, self.workers, until
            self.runs.append(self.workers)

    @rule(number=st.integers(1, 5))
    def renew(self, number: int) -> None:
        until = self.now + timedelta(seconds=LEASE)
        expected = self.status == Status.RUNNING and self.owner == number
        assert self.row.renew(f"worker-{number}", until) is expected
        if expected:
            self.lease_ends = until

    @rule(number=st.integers(1, 5), event=st.sampled_from([*ENDS]))
    def end(self, number: int, event: Event) -> None:
        can_end = self.status in (Status.RUNNING, Status.LOST) and self.owner == number
        outcome: Any = {"content": [{"type": "text", "text": f"by {number}"}]}
        if event is Event.FAIL:
            outcome = f"failed by {number}"
        stored = self.row.end(f"worker-{number}", event, outcome, is_error=event is Event.FAIL)
        assert stored is can_end
        if can_end:
            self.status, self.outcome = ENDS[event], number

    @rule()
    def cancel(self) -> None:
        expected = self.status in (Status.WAITING, Status.APPROVED)
        assert self.row.cancel() is expected
        if expected:
            self.status = Status.CANCELLED

    @rule(seconds=st.sampled_from([1.0, LEASE - 1, LEASE, LEASE + 1, LIFETIME / 2, LIFETIME]))
    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def look(self) -> None:
        self.settle()
        row = self.row.settle()
        assert row.status == self.status
        described = str(gate.describe(row, None))
        if self.outcome is not None:
            assert f"by {self.outcome}" in described
        assert ("Nothing was done" in described) == (
            self.status in (Status.WAITING, Status.DECLINED, Status.EXPIRED, Status.CANCELLED)
        )

    @rule()
    @precondition(lambda self: self.status in OPEN and not self.is_due())
    def call_again(self) -> None:
        row, is_new = Approval.objects.find_or_add(new_row())
        assert (row.pk, is_new) == (self.row.pk, False)

    @invariant()
    def it_runs_at_most_once_and_only_after_a_decision(self) -> None:
        assert len(self.runs) <= 1
        if self.runs:
            assert self.decided_by in {"ann", "bob", "carol"}
            assert self.may(self.decided_by)

    @invariant()
    def the_decision_is_kept(self) -> None:
        if Approval.objects.exists():
            assert self.row.decided_by == self.decided_by
            assert (self.row.decided_at is not None) == bool(self.decided_by)


@pytest.mark.django_db
def test_approval_behaves_like_the_model() -> None:
    run_state_machine_as_test(
        ApprovalMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )
