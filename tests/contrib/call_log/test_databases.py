"""The rows of calls on each database: PostgreSQL has a statement of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DataError, IntegrityError, OperationalError, connections, router

from django_mcp import Server
from django_mcp.contrib.call_log import rows
from django_mcp.contrib.call_log.models import Call
from django_mcp.core.auth.base import Principal
from tests.contrib.call_log.conftest import entry
from tests.databases import available, scratch_database

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.fixture(params=available())
def alias(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    django_db_blocker: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A database that has the call log."""
    with django_db_blocker.unblock(), scratch_database(request.param, tmp_path) as alias:
        monkeypatch.setattr(router, "db_for_write", lambda model, **hints: alias)
        yield alias


def test_call_is_read_as_it_was_written(alias: str, server: Server, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    user = User(pk=7, username="ann")
    principal = Principal(scheme="token", user=user, claims={"token_name": "\t\\N 'CI'\n"})
    moment = 1_700_000_000.25
    rows.write([entry(server, principal, ended_at=moment, target='ä\\t"x')])
    [call] = Call.objects.using(alias)
    assert call.called_at.timestamp() == moment - 0.5
    # 22:13 in UTC.
    assert call.day.isoformat() == "2023-11-15"
    assert (call.user_id, call.program, call.target) == (7, "\t\\N 'CI'\n", 'ä\\t"x')
    assert (call.duration, call.is_error, call.arguments) == (0.5, False, "")
    assert (call.arguments_size, call.response_size) == (2, 99)


def test_row_without_user_and_sizes_has_none(alias: str, server: Server) -> None:
    nobody = Principal(scheme="anonymous")
    rows.write([entry(server, nobody, arguments_size=None, response_size=None)] * 2)
    stored: Any = Call.objects.using(alias).values_list("user", "arguments_size", "response_size")
    assert list(stored) == [(None, None, None)] * 2


def test_refused_batch_leaves_no_row_and_raises_an_error_of_django(
    alias: str, server: Server
) -> None:
    nobody = Principal(scheme="anonymous")
    with pytest.raises((DataError, IntegrityError, OperationalError)):
        rows.write([entry(server, nobody), entry(server, nobody, outcome=None)])
    assert not connections[alias].in_atomic_block
    assert not Call.objects.using(alias).exists()
