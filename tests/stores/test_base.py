"""Stored sessions, whose runtime components are signed with them, and what is an outage."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError
from pytest_django import Settings

from django_mcp import stores
from django_mcp.core import log
from django_mcp.core.frame.session import Session
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores import base
from django_mcp.stores.base import StoreBusy, pack, unpack
from django_mcp.stores.retries import ConcurrentUpdate

SPEC = {"kind": "tool", "name": "own", "handler": "shop.mcp:own"}
SESSION = Session(
    id="one", server="shop", principal="test:1", version="2025-11-25", components={"tool:own": SPEC}
)


def test_components_are_restored_for_their_session() -> None:
    assert unpack(pack(SESSION), session_id="one") == SESSION
    assert "signature" not in pack(SESSION._replace(components={}))


def test_components_are_restored_with_a_former_key(settings: Any) -> None:
    text = pack(SESSION)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a newer one"

    assert unpack(text, session_id="one") == SESSION


@pytest.mark.parametrize(
    ("before", "after"), [("shop.mcp:own", "os:system"), ('"signature"', '"unknown"')]
)
def test_components_that_were_changed_are_ignored(
    before: str, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = pack(SESSION)
    assert before in text

    assert unpack(text.replace(before, after), session_id="one").components == {}
    assert "signature" in caplog.text


def test_components_of_another_session_are_ignored() -> None:
    assert unpack(pack(SESSION), session_id="other").components == {}


class RedisError(Exception):
    """As that of a package which may not be installed."""


RedisError.__module__ = "redis.exceptions"


class BusyLoadingError(RedisError):
    pass


def test_outages_are_logged_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    assert not base.had_outage(60)
    for _ in range(100):
        base.log_outage(ConnectionRefusedError("away"))
    log.repeated.log_counts()
    assert [record.getMessage() for record in caplog.records] == [
        "A store does not answer",
        "Repeated 99 times within a minute: A store does not answer",
    ]
    assert base.had_outage(60)


@pytest.mark.parametrize(
    ("cause", "is_outage"),
    [(None, False), (ConcurrentUpdate(), False), (OperationalError("database is locked"), True)],
)
def test_busy_store_had_an_outage_if_its_database_let_nobody_write(
    cause: Exception | None, is_outage: bool
) -> None:
    error = StoreBusy()
    error.__cause__ = cause
    base.log_outage(error)
    assert base.had_outage(60) is is_outage


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError("server closed the connection"), True),
        (InterfaceError("connection already closed"), True),
        (ConnectionResetError(), True),
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (BusyLoadingError(), True),
        (StoreUnavailable(), True),
        (IntegrityError("duplicate key"), False),
        (FileNotFoundError(), False),
        (ValueError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_errors_of_a_missing_server_are_an_outage(error: Exception, expected: Any) -> None:
    assert base.is_outage(error) is expected


def test_streams_of_abandoned_sessions_expire_soon_after_them(settings: Settings) -> None:
    settings.DJANGO_MCP = {"SESSION_IDLE_TIMEOUT": 1000}
    assert 1000 < stores.events().abandoned_after < 1200
    settings.DJANGO_MCP = {"SESSION_IDLE_TIMEOUT": 60}
    assert stores.events().abandoned_after == 600
