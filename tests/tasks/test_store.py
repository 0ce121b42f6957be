"""The rows of tasks, compared with a model of their life cycle."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import Status, Task, TaskEnded
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.stores.base import StoreFull
from django_mcp.tasks.store import LOST, NOT_STARTED, START_LIMIT, TaskStore
from tests.spec import spec
from tests.tasks.stored import LEASE, make_store, new, pass_time

OWNERS = ("ada", "bob")
LEASE_OWNERS = ("one", "two")
FORM = {"method": "elicitation/create", "params": {}}
RESULT: dict[str, Any] = {"content": []}
ERROR = {"code": -32603, "message": "It broke"}


@dataclass
class Expected:
    """What the model knows of one task."""

    owner: str
    status: Status = Status.WORKING
    lease_owner: str | None = None
    outstanding: set[str] = field(default_factory=set)
    is_lease_over: bool = False
    is_noted: bool = False
    is_lost: bool = False
    """Whether the end of the lease was noted, and another lease has passed."""
    is_expired: bool = False

    @property
    def is_active(self) -> bool:
        return self.status in (Status.WORKING, Status.INPUT_REQUIRED)

    def look(self) -> None:
        """Whoever looks at an active task whose lease has ended notes it, and then fails it."""
        if not self.is_lease_over or not self.is_active:
            return
        if self.is_lost:
            self.status, self.lease_owner = Status.FAILED, None
            self.outstanding.clear()
        self.is_noted = True


class LifeOfTasks(RuleBasedStateMachine):
    created = Bundle("created")

    def __init__(self) -> None:
        super().__init__()
        self.store = make_store()
        self.model: dict[str, Expected] = {}

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with pools.thread_sensitive():
            return async_to_sync(function)(*args, **options)

    def change(self, task_id: str, apply: Any, **who: str) -> Task | str:
        """The task after a change, or "ended", or "gone"."""
        try:
            changed = self.run(self.store.change, task_id, apply, **who)
        except TaskEnded:
            return "ended"
        return "gone" if changed is None else changed.after

    @rule(target=created, owner=st.sampled_from(OWNERS))
    def create(self, owner: str) -> str:
        task: Task = self.run(self.store.create, new(owner), lease_owner=None, is_started=False)
        assert task.id not in self.model
        self.model[task.id] = Expected(owner)
        return task.id

    @rule(task_id=created, lease_owner=st.sampled_from(LEASE_OWNERS))
    def start(self, task_id: str, lease_owner: str) -> None:
        expected = self.model[task_id]
        is_startable = expected.is_active and not expected.is_expired
        has_lease = expected.lease_owner == lease_owner and not expected.is_lease_over
        may_start = is_startable and (expected.lease_owner is None or has_lease)
        row = self.run(self.store.start, task_id, lease_owner)
        assert (row is not None) == may_start
        if may_start:
            expected.lease_owner = lease_owner

    @rule(task_id=created, lease_owner=st.sampled_from(LEASE_OWNERS))
    def renew(self, task_id: str, lease_owner: str) -> None:
        expected = self.model[task_id]
        task = self.run(self.store.renew, task_id, lease_owner)
        is_held = expected.lease_owner == lease_owner and not expected.is_expired
        assert (task is not None) == is_held
        if is_held and expected.is_active:
            expected.is_lease_over = expected.is_noted = expected.is_lost = False

    @rule(task_id=created, lease_owner=st.sampled_from(LEASE_OWNERS), name=st.sampled_from("xy"))
    def ask(self, task_id: str, lease_owner: str, name: str) -> None:
        keys: dict[str, str] = {}

        def ask(task: Task) -> Task:
            after, issued = tasks.ask(task, {name: FORM})
            assert not issued.values() & task.inputs.keys()
            keys.update(issued)
            return after

        def note(expected: Expected) -> None:
            expected.status = Status.INPUT_REQUIRED
            expected.outstanding |= set(keys.values())

        self.by_lease_owner(task_id, lease_owner, ask, note)

    @rule(task_id=created, owner=st.sampled_from(OWNERS), data=st.data())
    def answer(self, task_id: str, owner: str, data: st.DataObject) -> None:
        expected = self.model[task_id]
        keys = data.draw(st.sets(st.sampled_from([*sorted(expected.outstanding), "unknown"])))
        responses: dict[str, Any] = {key: {"result": {}} for key in keys}
        found = self.change(task_id, lambda task: tasks.answer(task, responses), owner=owner)
        if owner != expected.owner or expected.is_expired:
            assert found == "gone"
            return
        expected.look()
        assert isinstance(found, Task)
        if expected.outstanding & keys:
            expected.outstanding -= keys
            if not expected.outstanding:
                expected.status = Status.WORKING
        assert (found.status, {*found.outstanding}) == (expected.status, expected.outstanding)

    @rule(
        task_id=created,
        lease_owner=st.sampled_from(LEASE_OWNERS),
        end=st.sampled_from([Status.COMPLETED, Status.FAILED]),
    )
    def end(self, task_id: str, lease_owner: str, end: Status) -> None:
        def apply(task: Task) -> Task:
            completes = end is Status.COMPLETED
            return tasks.complete(task, RESULT) if completes else tasks.fail(task, ERROR)

        def note(expected: Expected) -> None:
            expected.status = end
            expected.outstanding.clear()

        self.by_lease_owner(task_id, lease_owner, apply, note)

    def by_lease_owner(
        self, task_id: str, lease_owner: str, apply: Any, note: Callable[[Expected], None]
    ) -> None:
        """Let a lease_owner change the task; only the present one can, and only an active one."""
        expected = self.model[task_id]
        found = self.change(task_id, apply, lease_owner=lease_owner)
        if expected.lease_owner != lease_owner or expected.is_expired:
            assert found == "gone"
        elif not expected.is_active:
            assert found == "ended"
        else:
            note(expected)
            assert isinstance(found, Task)
            assert found.status is expected.status

    @rule(task_id=created, owner=st.sampled_from(OWNERS))
    def cancel(self, task_id: str, owner: str) -> None:
        expected = self.model[task_id]
        found = self.change(task_id, tasks.cancel, owner=owner)
        if owner != expected.owner or expected.is_expired:
            assert found == "gone"
            return
        expected.look()
        if not expected.is_active:
            assert found == "ended"
            return
        assert isinstance(found, Task)
        expected.status = Status.CANCELLED
        expected.outstanding.clear()

    @rule(task_id=created)
    def end_lease(self, task_id: str) -> None:
        """The process that runs it has died, or could not renew the lease for its whole time."""
        expected = self.model[task_id]
        if expected.lease_owner is not None:
            pass_time(LEASE + 1, pk=task_id)
            expected.is_lease_over = True
            expected.is_lost = expected.is_noted

    @rule(task_id=created)
    def expire(self, task_id: str) -> None:
        past = timezone.now() - timedelta(seconds=1)
        McpTask._default_manager.filter(pk=task_id).update(expires_at=past)
        self.model[task_id].is_expired = True

    @rule(task_id=created, owner=st.sampled_from(OWNERS))
    def load(self, task_id: str, owner: str) -> None:
        expected = self.model[task_id]
        task = self.run(self.store.load, task_id, owner)
        if owner != expected.owner or expected.is_expired:
            assert task is None
            return
        was_lost = expected.is_lost and expected.is_active
        expected.look()
        assert (task.status, {*task.outstanding}) == (expected.status, expected.outstanding)
        assert not was_lost or task.error == LOST

    @rule(owner=st.sampled_from(OWNERS))
    def list_(self, owner: str) -> None:
        listed, key = [], None
        while True:
            page, key = self.run(self.store.page, owner, ["work"], key, 3)
            listed += page
            if key is None:
                break
        own = {k: v for k, v in self.model.items() if v.owner == owner and not v.is_expired}
        for expected in own.values():
            expected.look()
        found = {task.id: task.status for task in listed if task.id in self.model}
        assert found == {key: expected.status for key, expected in own.items()}

    @rule()
    def prune(self) -> None:
        self.run(self.store.prune)
        for expected in self.model.values():
            if not expected.is_expired:
                expected.look()
        expired = [key for key, expected in self.model.items() if expected.is_expired]
        assert not McpTask._default_manager.filter(pk__in=expired).exists()


@spec("TASK-23", "TASK-25", "TASK-72", "TASK-B0")
@pytest.mark.django_db
def test_rows_of_tasks_follow_the_model() -> None:
    run_state_machine_as_test(
        LifeOfTasks,
        settings=hypothesis_settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db(transaction=True)
async def test_number_of_tasks_of_a_caller_is_limited() -> None:
    store = make_store(limit=1)
    await store.create(new("ada"), lease_owner=None, is_started=False)
    await store.create(new("bob"), lease_owner=None, is_started=False)

    with pytest.raises(StoreFull):
        await store.create(new("ada"), lease_owner=None, is_started=False)


@pytest.mark.django_db(transaction=True)
async def test_task_that_nobody_starts_fails_and_never_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store()
    waiting = await store.create(new(), lease_owner=None, is_started=False)
    monkeypatch.setattr("django_mcp.tasks.store.START_LIMIT", timedelta())
    task = await store.create(new(), lease_owner=None, is_started=False)
    await store.prune()
    await pools.run(pass_time, LEASE + 1)

    found = await store.load(task.id, "ada")
    started = await store.start(task.id, "late")
    present = await store.load(waiting.id, "ada")

    assert found is not None
    assert present is not None
    assert (found.status, found.error) == (Status.FAILED, NOT_STARTED)
    assert started is None
    assert present.status is Status.WORKING


@pytest.mark.django_db(transaction=True)
async def test_cursor_of_no_page_lists_nothing() -> None:
    store = make_store()
    await store.create(new(), lease_owner=None, is_started=False)

    assert await store.page("ada", ["work"], ("yesterday", "x"), 10) == ([], None)


@pytest.mark.django_db(transaction=True)
async def test_page_has_a_task_that_cannot_be_decrypted_without_its_result(settings: Any) -> None:
    store = make_store()
    ended = await store.create(new(), lease_owner="one", is_started=True)
    await store.change(ended.id, lambda task: tasks.complete(task, {"content": []}))
    settings.SECRET_KEY = "another key"
    other = await store.create(new(), lease_owner=None, is_started=False)

    listed, _last = await store.page("ada", ["work"], None, 10)

    assert [(task.id, task.status, task.result) for task in listed] == [
        (ended.id, Status.COMPLETED, None),
        (other.id, Status.WORKING, None),
    ]


async def lose(store: TaskStore, lease_owner: str | None) -> str:
    """The id of a task that the next read fails: its owner has died after an input request.

    Without a lease owner, no worker has started it.
    """
    is_started = lease_owner is not None
    task = await store.create(new(), lease_owner=lease_owner, is_started=is_started)
    if lease_owner is not None:
        await store.change(
            task.id, lambda task: tasks.ask(task, {"name": FORM})[0], lease_owner=lease_owner
        )
    await pools.run(pass_time, START_LIMIT.total_seconds() + LEASE, pk=task.id)
    await store.prune()
    await pools.run(pass_time, LEASE + 1, pk=task.id)
    return task.id


@pytest.mark.django_db(transaction=True)
async def test_lost_task_that_cannot_be_decrypted_fails_without_its_inputs(settings: Any) -> None:
    store = make_store()
    task_id = await lose(store, "one")
    settings.SECRET_KEY = "another key"

    await store.prune()
    task = await store.load(task_id, "ada")

    assert task is not None
    assert (task.status, task.error, task.inputs) == (Status.FAILED, LOST, {})


@pytest.mark.django_db(transaction=True)
async def test_expired_tasks_are_deleted_although_others_cannot_be_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store()
    lost = await lose(store, "one")
    expired = await store.create(new(), lease_owner=None, is_started=False)
    past = timezone.now() - timedelta(seconds=1)
    await McpTask._default_manager.filter(pk=expired.id).aupdate(expires_at=past)

    def fail(task: Task, error: Any) -> Task:
        raise ValueError("It cannot be settled")

    monkeypatch.setattr(tasks, "fail", fail)
    with pytest.raises(ValueError, match="It cannot be settled"):
        await store.prune()

    left = [row.pk async for row in McpTask._default_manager.all()]
    assert left == [lost]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let ``act`` happen after the first read of a task that has to fail, and before its change."""
    fail = tasks.fail
    has_acted = False

    def act_and_fail(task: Task, error: Any) -> Task:
        nonlocal has_acted
        if not has_acted:
            has_acted = True
            act()
        return fail(task, error)

    monkeypatch.setattr(tasks, "fail", act_and_fail)


@pytest.mark.django_db(transaction=True)
async def test_lease_that_is_renewed_while_its_end_is_stored_is_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store()
    task_id = await lose(store, "one")
    renew = inspect.unwrap(TaskStore.renew)
    meanwhile(monkeypatch, lambda: renew(store, task_id, "one"))

    found = await store.load(task_id, "ada")
    renewed = await store.renew(task_id, "one")

    assert found is not None
    assert found.status is Status.INPUT_REQUIRED
    assert renewed is not None


@pytest.mark.django_db(transaction=True)
async def test_task_that_starts_while_its_end_is_stored_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store()
    task_id = await lose(store, None)
    start = inspect.unwrap(TaskStore.start)
    meanwhile(monkeypatch, lambda: start(store, task_id, "late"))

    found = await store.load(task_id, "ada")
    renewed = await store.renew(task_id, "late")

    assert found is not None
    assert found.status is Status.WORKING
    assert renewed is not None


@pytest.mark.django_db
def test_row_with_an_id_that_no_task_has_is_not_looked_up(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert make_store().own_row_here("a\0b" * 8, "1") is None
