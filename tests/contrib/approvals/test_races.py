"""Races and crashes on real databases: one decision counts, and an approved call runs once."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from django_mcp.contrib.approvals import answers
from django_mcp.contrib.approvals.models import Approval, Decision, Phase
from django_mcp.models import McpTask
from django_mcp.tasks import store
from tests.contrib.approvals import rows
from tests.contrib.approvals.worker import approver
from tests.databases import STRICT_OPTIONS, available, name_of, scratch_database
from tests.tasks.stored import pass_time
from tests.waiting import SECONDS, wait_until

ROOT = Path(__file__).parents[3]
CONNECTION_KEYS = ("ENGINE", "NAME", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
THREADS = 8
SQLITE = {"OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"}}


class Router:
    """Keeps approvals in the database of this test."""

    alias = ""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return self.alias if model in (Approval, McpTask) else None

    db_for_write = db_for_read


def with_options(kind: Any, options: Any, suffix: str = "") -> Any:
    marks = () if isinstance(kind, str) else kind.marks
    return pytest.param((name_of(kind), options), marks=marks, id=name_of(kind) + suffix)


KINDS = [with_options(kind, {}) for kind in available()] + [
    # Where a transaction reads the same rows again and again, whatever others commit.
    with_options(kind, {"OPTIONS": STRICT_OPTIONS[name_of(kind)]}, "-strict")
    for kind in available()
    if name_of(kind) in STRICT_OPTIONS
]


@pytest.fixture(scope="module", params=KINDS)
def migrated(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """The alias of a migrated database."""
    folder = tmp_path_factory.mktemp("database")
    kind, options = request.param
    options = SQLITE if kind == "sqlite3" else options
    with (
        django_db_blocker.unblock(),
        scratch_database(kind, folder, **options) as alias,
    ):
        yield alias


@pytest.fixture
def database(migrated: str, settings: Any) -> str:
    """The alias of a database without approvals, in which the code under test works."""
    Router.alias = migrated
    settings.DATABASE_ROUTERS = [Router()]
    settings.SECRET_KEY = "worker"
    Approval.objects.all().delete()
    return migrated


def waiting_call() -> str:
    """The id of a call that waits."""
    key, _ = async_to_sync(rows.request)()
    return key


def start(key: str, lease_owner: str) -> bool:
    return async_to_sync(store.get().start)(key, lease_owner) is not None


def at_once(function: Callable[[int], Any]) -> list[Any]:
    """The results of ``function`` in several threads that start together."""
    barrier, results, errors = threading.Barrier(THREADS), [], []

    def work(number: int) -> None:
        try:
            barrier.wait(SECONDS)
            results.append(function(number))
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert errors == []
    assert len(results) == THREADS
    return results


def test_one_of_several_decisions_counts(database: str) -> None:
    waiting_call()

    def decide(number: int) -> Any:
        decision = Decision.APPROVE if number % 2 else Decision.DECLINE
        changed = Approval.objects.get().decide(approver(f"user-{number}"), decision, where="page")
        return None if changed is None else (decision, f"user-{number}")

    won = [outcome for outcome in at_once(decide) if outcome is not None]
    assert len(won) == 1
    row = Approval.objects.get()
    decision, name = won[0]
    assert row.decided_by == name
    phases = {Decision.APPROVE: Phase.APPROVED, Decision.DECLINE: Phase.DECLINED}
    assert row.phase == phases[decision]


def test_one_of_several_workers_starts_the_call(database: str) -> None:
    key = waiting_call()
    Approval.objects.get().decide(approver(), Decision.APPROVE, where="page")
    started = at_once(lambda number: start(key, f"worker-{number}"))
    assert started.count(True) == 1


def test_decision_and_expiry_exclude_each_other(database: str) -> None:
    waiting_call()
    Approval.objects.update(lease_until=timezone.now() - timedelta(seconds=1))

    def act(number: int) -> bool:
        if number % 2:
            changed = Approval.objects.get().decide(approver(), Decision.APPROVE, where="page")
            return changed is not None
        Approval.objects.all().settle()
        return False

    assert at_once(act).count(True) == 0
    assert Approval.objects.get().phase == Phase.EXPIRED


def test_same_call_at_the_same_time_is_stored_once(database: str) -> None:
    stored = at_once(lambda number: async_to_sync(rows.request)())
    assert [is_new for _, is_new in stored].count(True) == 1
    assert len({key for key, _ in stored}) == 1
    assert Approval.objects.count() == 1


# Processes that are killed.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file to which a run writes a line."""
    return tmp_path / "paid"


@contextmanager
def worker(database: str, file: Path, action: str, key: str) -> Iterator[Popen[str]]:
    reached = connections[database].settings_dict
    described = {name: reached[name] for name in CONNECTION_KEYS if reached[name]}
    python = [sys.executable, "-m", "tests.contrib.approvals.worker"]
    command = [*python, json.dumps(described), str(file), action, key]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=ROOT) as process:
        try:
            assert read_line(process) == "ready"
            yield process
        finally:
            process.kill()


def read_line(process: Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: Popen[str]) -> None:
    assert process.stdin is not None
    print("go", file=process.stdin, flush=True)


def test_approved_call_runs_once_after_a_crash_before_its_run(database: str, file: Path) -> None:
    key = waiting_call()
    with worker(database, file, "approve", key) as crashing:
        go(crashing)
        assert crashing.wait(SECONDS) == -9
    assert Approval.objects.get().phase == Phase.APPROVED
    assert not file.exists()
    with worker(database, file, "run", key) as one, worker(database, file, "run", key) as two:
        go(one)
        go(two)
        assert {read_line(one), read_line(two)} <= {"completed", "running"}
    assert file.read_text() == "paid 7\n"
    assert Approval.objects.get().phase == Phase.COMPLETED


@pytest.mark.nightly
def test_call_whose_worker_was_killed_is_lost_and_not_repeated(database: str, file: Path) -> None:
    key = waiting_call()
    Approval.objects.get().decide(approver(), Decision.APPROVE, where="page")
    with worker(database, file, "hang", key) as hanging:
        go(hanging)
        wait_until(lambda: file.exists() and file.read_text(), "The tool is called")
        hanging.kill()
        hanging.wait(SECONDS)
    assert Approval.objects.get().phase == Phase.RUNNING
    for _ in range(2):
        pass_time(store.LEASE + 1)
        Approval.objects.all().settle()
    for _ in range(2):
        with worker(database, file, "run", key) as late:
            go(late)
            assert read_line(late) in ("running", "failed")
        Approval.objects.all().settle()
        row = Approval.objects.get()
        assert row.is_unknown
        assert "may have been carried out or not" in str(answers.describe(row, None))
    assert file.read_text() == "paid 7\n"
