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
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from django_mcp.approvals import gate
from django_mcp.approvals.life_cycle import Event, Status
from django_mcp.approvals.models import Approval
from django_mcp.frame.session import address
from tests.approvals.worker import PERMISSION, approver
from tests.databases import available, scratch_database
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
CONNECTION_KEYS = ("ENGINE", "NAME", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
THREADS = 8
SQLITE = {"OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"}}


class Router:
    """Keeps approvals in the database of this test."""

    alias = ""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return self.alias if model is Approval else None

    db_for_write = db_for_read


@pytest.fixture(scope="module", params=available())
def migrated(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """The alias of a migrated database."""
    folder = tmp_path_factory.mktemp("database")
    options = SQLITE if request.param == "sqlite3" else {}
    with (
        django_db_blocker.unblock(),
        scratch_database(request.param, folder, **options) as alias,
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


def new_row(number: int = 0, *, amount: int = 7) -> Approval:
    now = timezone.now()
    row = Approval(
        id=f"{number:022}",
        server="till",
        tool="pay",
        title="Pay",
        version="2026-07-28",
        principal="jwt:ann",
        owner=address("ann"),
        caller=address("ann"),
        permission=PERMISSION,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(hours=1),
    )
    arguments = {"amount": amount}
    row.store_call(
        {
            "id": 1,
            "params": {"name": "pay", "arguments": arguments},
            "principal": ["jwt", "ann", [], {}],
            "user_key": "",
            "endpoint": "",
            "path_params": {},
            "client_info": {},
            "client_capabilities": {},
            "language": "en",
            "session_id": None,
            "changed": {"assigns": {}, "private": {}},
        }
    )
    return row


def at_once(function: Callable[[int], Any]) -> list[Any]:
    """The results of ``function`` in several threads that start together."""
    barrier, results, errors = threading.Barrier(THREADS), [], []

    def work(number: int) -> None:
        try:
            barrier.wait(20)
            results.append(function(number))
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(results) == THREADS
    return results


def test_one_of_several_decisions_counts(database: str) -> None:
    new_row().save()

    def decide(number: int) -> Any:
        event = Event.APPROVE if number % 2 else Event.DECLINE
        row = Approval.objects.get()
        is_first = row.decide(approver(f"user-{number}"), event, where="page")
        return (event, f"user-{number}") if is_first else None

    won = [each for each in at_once(decide) if each is not None]
    assert len(won) == 1
    row = Approval.objects.get()
    event, name = won[0]
    assert row.decided_by == name
    assert row.status == {Event.APPROVE: "approved", Event.DECLINE: "declined"}[event]


def test_one_of_several_workers_starts_the_call(database: str) -> None:
    new_row().save()
    Approval.objects.get().decide(approver(), Event.APPROVE, where="page")
    until = timezone.now() + timedelta(seconds=60)
    started = at_once(lambda number: Approval.objects.get().start(f"worker-{number}", until))
    assert started.count(True) == 1


def test_decision_and_expiry_exclude_each_other(database: str) -> None:
    row = new_row()
    row.expires_at = timezone.now()
    row.save()

    def act(number: int) -> bool:
        if number % 2:
            return bool(Approval.objects.get().decide(approver(), Event.APPROVE, where="page"))
        Approval.objects.all().settle()
        return False

    assert at_once(act).count(True) == 0
    assert Approval.objects.get().status == Status.EXPIRED


def test_same_call_at_the_same_time_is_stored_once(database: str) -> None:
    found = at_once(lambda number: Approval.objects.find_or_add(new_row(number)))
    assert [is_new for _, is_new in found].count(True) == 1
    assert len({row.pk for row, _ in found}) == 1
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
    python = [sys.executable, "-m", "tests.approvals.worker"]
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
    row = new_row()
    row.save()
    with worker(database, file, "approve", row.pk) as crashing:
        go(crashing)
        assert crashing.wait(60) == -9
    assert Approval.objects.get().status == Status.APPROVED
    assert not file.exists()
    with worker(database, file, "run", row.pk) as one, worker(database, file, "run", row.pk) as two:
        go(one)
        go(two)
        assert {read_line(one), read_line(two)} <= {"completed", "running"}
    assert file.read_text() == "paid 7\n"
    assert Approval.objects.get().status == Status.COMPLETED


@pytest.mark.nightly
def test_call_whose_worker_was_killed_is_lost_and_not_repeated(database: str, file: Path) -> None:
    row = new_row()
    row.save()
    row.decide(approver(), Event.APPROVE, where="page")
    with worker(database, file, "hang", row.pk) as hanging:
        go(hanging)
        wait_until(lambda: file.exists() and file.read_text(), "The tool is called")
        hanging.kill()
        hanging.wait(60)
    assert Approval.objects.get().status == Status.RUNNING
    Approval.objects.update(lease_until=timezone.now())
    for _ in range(2):
        with worker(database, file, "run", row.pk) as late:
            go(late)
            assert read_line(late) in ("running", "lost")
        settled = Approval.objects.get().settle()
        assert settled.status == Status.LOST
        assert "may have been carried out or not" in str(gate.describe(settled, None))
    assert file.read_text() == "paid 7\n"
