"""The life of an approval: any sequence of events, compared with a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
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

from django_mcp.contrib.approvals import answers
from django_mcp.contrib.approvals.models import (
    PHASES,
    STARTED,
    UNSTARTED,
    Approval,
    Decision,
    Phase,
)
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import LIFE_CYCLE, UNDECIDED, Status, TaskEnded
from django_mcp.runtime import pools
from django_mcp.tasks import store, submission
from tests.contrib.approvals import rows
from tests.contrib.approvals.worker import approver
from tests.tasks.stored import pass_time

LIFETIME = 7 * 24 * 3600.0
"""Of what was approved, by default."""
LEASE = 9.0
OPEN = (Phase.WAITING, Phase.APPROVED, Phase.RUNNING)
RESULT: dict[str, Any] = {"content": [{"type": "text", "text": "Paid"}]}


def test_every_phase_has_a_status_and_a_text() -> None:
    assert {*UNSTARTED.values(), *STARTED.values()} == {*Phase} == {*PHASES}
    assert {*UNSTARTED, *STARTED} == {*Status}


def test_no_way_leads_back_to_a_call_that_waits() -> None:
    leading = {status for status, targets in LIFE_CYCLE.items() if targets & UNDECIDED}
    assert leading == {Status.WAITING}


class ApprovalMachine(RuleBasedStateMachine):
    """One approval, people, workers that crash, and time; beside it, a model of plain values."""

    def __init__(self) -> None:
        super().__init__()
        Approval.objects.all().delete()
        # The model.
        self.phase = Phase.WAITING
        self.decided_by = ""
        self.left = rows.LIFETIME
        """Seconds until somebody has to act."""
        self.noted: float | None = None
        """Seconds for which the end of the lease is known."""
        self.owner: str | None = None
        self.runs: list[str] = []
        self.workers = 0

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with pools.thread_sensitive():
            return async_to_sync(function)(*args, **options)

    @initialize(four_eyes=st.booleans(), has_user=st.booleans())
    def call(self, four_eyes: bool, has_user: bool) -> None:
        user_key = "ann" if has_user else ""
        self.key, is_new = self.run(rows.request, four_eyes=four_eyes, user_key=user_key)
        assert is_new
        self.four_eyes = four_eyes
        self.has_user = has_user

    @property
    def row(self) -> Approval:
        row: Approval = Approval.objects.get()
        return row

    def may(self, name: str) -> bool:
        """Whether the model lets this person decide."""
        if name == "eve":
            return False
        return not self.four_eyes or (self.has_user and name != "ann")

    @property
    def is_over(self) -> bool:
        """Whether time has ended it; a lease, only a lease after that was found."""
        if self.phase is Phase.RUNNING:
            return self.noted is not None and self.noted >= LEASE
        return self.left <= 0

    def settle(self) -> None:
        if self.left > 0 or self.phase not in OPEN:
            return
        if not self.is_over:
            self.noted = self.noted or 0.0
            return
        self.phase = Phase.EXPIRED if self.phase is Phase.WAITING else Phase.FAILED
        self.owner = None

    @rule(name=st.sampled_from(["ann", "bob", "carol", "eve"]), decision=st.sampled_from(Decision))
    def decide(self, name: str, decision: Decision) -> None:
        who = approver(name)
        if name == "eve":
            who.has_perm = lambda permission: False
        expected = self.phase is Phase.WAITING and self.left > 0 and self.may(name)
        changed = self.row.decide(who, decision, where="page")
        assert (changed is not None) is expected
        if self.may(name):
            self.settle()
        if expected:
            self.decided_by = name
            is_approval = decision is Decision.APPROVE
            self.phase = Phase.APPROVED if is_approval else Phase.DECLINED
            self.left = LIFETIME

    @rule()
    def start(self) -> None:
        self.workers += 1
        lease_owner = f"worker-{self.workers}"
        expected = self.phase is Phase.APPROVED and self.left > 0
        started = self.run(store.get().start, self.key, lease_owner)
        assert (started is not None) is expected
        if expected:
            self.phase = Phase.RUNNING
            self.owner = lease_owner
            self.left = LEASE
            self.runs.append(lease_owner)

    @rule(number=st.integers(1, 5))
    def renew(self, number: int) -> None:
        lease_owner = f"worker-{number}"
        renewed = self.run(store.get().renew, self.key, lease_owner)
        assert (renewed is not None) is (self.owner == lease_owner)
        if renewed is not None and self.phase is Phase.RUNNING:
            self.left = LEASE
            self.noted = None

    @rule(number=st.integers(1, 5))
    def end(self, number: int) -> None:
        lease_owner = f"worker-{number}"
        can_end = self.phase is Phase.RUNNING and self.owner == lease_owner
        try:
            change = store.get().change
            changed = self.run(change, self.key, self.complete, lease_owner=lease_owner)
        except TaskEnded:
            changed = None
        assert (changed is not None) is can_end
        if can_end:
            self.phase = Phase.COMPLETED

    @staticmethod
    def complete(task: tasks.Task) -> tasks.Task:
        return tasks.complete(task, RESULT)

    @rule()
    def cancel(self) -> None:
        expected = self.phase in OPEN and not self.is_over
        assert self.run(submission.cancel, self.key) is expected
        self.settle()
        if expected:
            is_started = self.phase is Phase.RUNNING
            self.phase = Phase.STOPPED if is_started else Phase.WITHDRAWN

    @rule(seconds=st.sampled_from([5.0, LEASE + 1, rows.LIFETIME / 2, rows.LIFETIME + 1]))
    def pass_time(self, seconds: float) -> None:
        pass_time(seconds)
        self.left -= seconds
        if self.noted is not None:
            self.noted += seconds

    @rule()
    def look(self) -> None:
        Approval.objects.all().settle()
        self.settle()
        row = self.row
        assert row.phase == self.phase
        described = str(answers.describe(row, None))
        assert ("Nothing was done" in described) == (not self.runs and row.phase != Phase.APPROVED)

    @rule()
    @precondition(lambda self: self.phase in OPEN and self.left > 0)
    def call_again(self) -> None:
        assert self.run(rows.request) == (self.key, False)

    @invariant()
    def it_runs_at_most_once_and_only_after_a_decision(self) -> None:
        assert len(self.runs) <= 1
        if self.runs:
            assert self.decided_by in {"ann", "bob", "carol"}
            assert self.may(self.decided_by)

    @invariant()
    def the_decision_is_kept(self) -> None:
        if Approval.objects.exists():
            row = self.row
            assert row.decided_by == self.decided_by
            assert (row.decided_at is not None) == bool(self.decided_by)


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
