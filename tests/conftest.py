"""Fixtures for all tests, and the location of the official schemas."""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

# Imported before a site calls gc.freeze(): later, Hypothesis cannot see what trio refers to.
import hypothesis as hypothesis
import pytest
from pytest_django import DjangoDbBlocker
from xdist.remote import Producer
from xdist.scheduler import Scheduling

from tests import scheduling
from tests.constants import set_constants as set_constants
from tests.supervisor import supervise
from tests.waiting import SECONDS

if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes that tests start are not measured: it would make them slow.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

# Whether an example is slow depends on what else the machine does.
hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")

pytest_plugins = ["django_mcp.testing.plugin"]

TESTS = Path(__file__).resolve().parent
SCHEMAS = TESTS.parents[1] / "shared" / "spec" / "schema"

# Read by django_mcp.testing, here and in processes that tests start.
os.environ.setdefault("MCP_TEST_TIMEOUT", str(SECONDS))

if SCHEMAS.is_dir():
    os.environ.setdefault("DJANGO_MCP_SPEC_SCHEMAS", str(SCHEMAS))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """End what the run starts with it, and compare received messages with the official schemas."""
    if not hasattr(config, "workerinput"):
        supervise()
    # It is not a strategy that does, but a timer on another thread, at the same moment.
    text = "ignore:Do not use the `random` module inside strategies"
    config.addinivalue_line("filterwarnings", text)
    from django_mcp.testing.received import CHECK_MESSAGE
    from tests import spec_schemas

    CHECK_MESSAGE.fill(spec_schemas.check)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, after pytest-randomly has chosen an order."""
    items.sort(key=lambda item: scheduling.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Keep tests that share what is costly to start in one process."""
    return scheduling.Groups(config, log)


COMBINATIONS: Sequence[tuple[str, str]] = (("2026-07-28", "http"), ("2025-11-25", "stdio"))
"""Versions and transports of tests that depend on neither: without a session, and with one."""
EACH_VERSION = (
    *COMBINATIONS,
    ("2025-06-18", "http"),
    ("2025-03-26", "stdio"),
    ("2024-11-05", "memory"),
)
"""Versions and transports of tests that depend on the version only."""
EACH_TRANSPORT = (*COMBINATIONS, ("2025-11-25", "memory"))
"""Versions and transports of tests that depend on the transport only."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say over which versions and transports a test with the fixture ``client_for`` runs.

    A test depends on what it has as an argument: ``mcp_version``, ``mcp_transport`` or both. With
    both, or the mark ``every_combination``, it runs over all combinations. If it parametrizes one
    of them itself, it runs over two values of the other one.
    """
    test = metafunc.definition
    if "client_for" not in metafunc.fixturenames or test.get_closest_marker("every_combination"):
        return
    arguments = inspect.signature(metafunc.function).parameters
    own = {name for mark in test.iter_markers("parametrize") for name in argument_names(mark)}
    if "mcp_version" in own and "mcp_transport" in own:
        return
    if "mcp_version" in own:
        test.add_marker(pytest.mark.parametrize("mcp_transport", ["http", "stdio"]))
        return
    if "mcp_transport" in own:
        test.add_marker(pytest.mark.parametrize("mcp_version", ["2026-07-28", "2025-11-25"]))
        return
    needs_version = "mcp_version" in arguments
    needs_transport = "mcp_transport" in arguments
    if needs_version and needs_transport:
        return
    combinations = COMBINATIONS
    if needs_version:
        combinations = EACH_VERSION
    elif needs_transport:
        combinations = EACH_TRANSPORT
    test.add_marker(pytest.mark.parametrize(("mcp_version", "mcp_transport"), combinations))


def argument_names(mark: pytest.Mark) -> list[str]:
    """The names that a mark parametrizes."""
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SERVICES_REQUIRED, a test of services that is skipped has failed."""
    report = yield
    is_required = os.environ.get("SERVICES_REQUIRED") == "1" and item.get_closest_marker("services")
    if is_required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"A required service is missing: {report.longrepr}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print the failures before an error of pytest itself, which may have their cause."""
    from tests import summary

    summary.after_internal_error(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which failures may have a cause in this machine."""
    from tests import summary

    failed = [each for kind in ("failed", "error") for each in terminalreporter.getreports(kind)]
    for line in summary.lines(getattr(report, "longreprtext", "") for report in failed):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session", autouse=True)
def _folder_of_the_run(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """Tell helpers where the processes of pytest-xdist share files."""
    from tests.migrated_file import RUN

    own = tmp_path_factory.getbasetemp()
    RUN.blocker = django_db_blocker
    RUN.folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    yield
    with django_db_blocker.unblock():
        RUN.at_its_end.close()


@pytest.fixture(scope="session", autouse=True)
def _passwords_are_hashed_quickly() -> None:
    """Take no time for the hashes of passwords, which sites want to take long."""
    from django.conf import settings

    quick = "django.contrib.auth.hashers.MD5PasswordHasher"
    settings.PASSWORD_HASHERS = [quick, *settings.PASSWORD_HASHERS]


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: DjangoDbBlocker,
    _folder_of_the_run: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Keep the database of tests in a file, as sites do, so that readers do not wait for a writer.

    Connections to a database in memory share a cache. While one writes a table, reads of the others
    fail at once, whatever their time limit is.
    """
    from django.conf import settings
    from django.db import connections
    from django.test import TransactionTestCase

    from tests import migrated_file

    file = tmp_path_factory.mktemp("database") / "test.sqlite3"
    with django_db_blocker.unblock():
        migrated = migrated_file.copy(file)
        connections["default"].close()
    settings.DATABASES["default"]["NAME"] = str(file)
    connections["default"].settings_dict["NAME"] = str(file)
    cases: Any = TransactionTestCase
    flush = cases._fixture_teardown

    def restore(case: Any) -> None:
        """Change only rows that differ: Django empties all tables, and creates all permissions."""
        names = list(case._databases_names(include_mirrors=False))
        # A test case that an example runs is in the transaction of its test: no file is attached.
        if names == ["default"] and not connections["default"].in_atomic_block:
            migrated_file.restore("default", migrated)
        else:
            flush(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "_fixture_teardown", restore)
        yield
    with django_db_blocker.unblock():
        connections["default"].close()


@pytest.fixture(autouse=True)
def _table_of_switches_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is mounted in a test read the database only where the test does."""
    from django_mcp.pubsub import switches

    monkeypatch.setattr(switches, "follow", int)


@pytest.fixture(autouse=True)
def _handlers_of_tests_may_be_stored() -> Iterator[None]:
    """Let sessions store components whose handlers are in a test, which is in no installed app."""
    from django_mcp.core.components import stored

    is_storable = stored.IS_STORABLE.get()
    stored.IS_STORABLE.fill(lambda module: module.startswith("tests.") or is_storable(module))
    yield
    stored.IS_STORABLE.fill(is_storable)


@pytest.fixture(autouse=True)
def _clients_receive_errors(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the test client return what is sent for an unexpected exception: it is what we test.

    The examples of the documentation have the default of their readers.
    """
    if "docs" in request.path.parts:
        return
    from django_mcp.testing import Client

    monkeypatch.setattr(Client, "raise_exceptions", False)


@pytest.fixture(autouse=True)
def _outages_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are not judged for some time after an outage."""
    from django_mcp.stores import base

    monkeypatch.setattr(base, "_outages", base._Outages())


@pytest.fixture(autouse=True)
def _calls_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no rows of calls, which would outlive their test; the tests of the call log do."""
    from django_mcp.core.server.extensions import INSTALLED

    monkeypatch.setattr(INSTALLED, "after_call", ())


@pytest.fixture
def thread_sensitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all synchronous code on one thread, which has the transaction of the test."""
    from django_mcp.runtime import pools

    everywhere = ContextVar("thread_sensitive", default=True)
    monkeypatch.setattr(pools, "_is_thread_sensitive", everywhere)


@pytest.fixture(scope="session", autouse=True)
def _no_rounds_of_housekeeping() -> None:
    """Delete what has expired only in tests of it: a round of a minute later meets another test."""
    from django_mcp.runtime import housekeeping

    housekeeping.INTERVAL = 86_400.0


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """Close the connections of our threads, which outlive the test otherwise."""
    # Imported late: this file is read before django.setup().
    from asgiref.sync import SyncToAsync

    from django_mcp.runtime import pools

    # Between two tests, no connection may be used. Whatever tried has left one without autocommit.
    SyncToAsync.single_thread_executor.submit(_forget_connections).result()
    yield
    pools.shutdown()
    # A query that a cancelled task has left would lock a table while the database is emptied.
    SyncToAsync.single_thread_executor.submit(_forget_connections).result()


@pytest.fixture(autouse=True)
def _no_loop_is_stopping() -> None:
    """Let event loops that outlive their test serve again, such as that of WSGI servers.

    A test that tells the process to stop tells all of them.
    """
    from django_mcp.core.dispatch.calls_in_flight import calls_in_flight
    from django_mcp.transports.http import shutdown

    for _, process in shutdown.here.__self__.items():  # type: ignore[attr-defined]
        process._ending = None
        if process._closing is not None:
            process._closing.cancel()
            process._closing = None
    for _, calls in calls_in_flight.__self__.items():  # type: ignore[attr-defined]
        calls.open()


def _forget_connections() -> None:
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        connection.close()
        del connections[connection.alias]


@pytest.fixture(autouse=True)
def _messages_of_other_tests_are_no_repetitions() -> None:
    """Log what is logged once a minute in each test again."""
    from django_mcp.core import log

    log.repeated.forget()
