"""The call log in a database of its own: the users are in another one."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client as Browser
from django.urls import reverse
from django.utils import timezone

from django_mcp.admin import call_numbers
from django_mcp.contrib.call_log import dashboard
from django_mcp.contrib.call_log.models import Call
from tests.databases import scratch_database

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

LIST = reverse("admin:django_mcp_calls_call_changelist")


class McpRouter:
    """The call log is in a database of its own, as the documentation shows it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.alias if model is Call else None

    db_for_write = db_for_read

    def allow_relation(self, *objects: Any, **hints: Any) -> bool:
        return True


@pytest.fixture(autouse=True)
def alias(
    transactional_db: None, tmp_path: Path, settings: Any, django_db_blocker: Any
) -> Iterator[str]:
    """The database of the calls, which has no table of users."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        with connections[alias].cursor() as cursor:
            cursor.execute("PRAGMA foreign_keys = OFF")
            cursor.execute("DROP TABLE auth_user")
        settings.DATABASE_ROUTERS = [McpRouter(alias)]
        yield alias


@pytest.fixture
def manager(client: Browser) -> Browser:
    user = User.objects.create_user("manager", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_call"))
    client.force_login(user)
    return client


def call_of(user: User) -> Call:
    at = timezone.now()
    return Call.objects.create(
        called_at=at,
        day=at.date(),
        user=user,
        principal=f"token:{user.pk}",
        server="desk",
        kind="tool",
        component="close",
        target="close",
        revision="2026-07-28",
        outcome="ok",
        is_error=False,
        duration=0.01,
        duration_class=0,
    )


def test_name_of_a_user_in_another_database_is_shown_and_exported(manager: Browser) -> None:
    row = call_of(User.objects.create_user("ann"))

    assert '<td class="field-caller">ann</td>' in manager.get(LIST).text
    assert listed(manager, user="ann") == 1
    page = manager.get(reverse("admin:django_mcp_calls_call_change", args=[row.pk])).text
    assert '?user=ann"' in page
    assert exported(manager)[0]["user"] == "ann"
    assert [client.user for client in call_numbers.stateless_clients()] == ["ann"]


def test_call_of_a_user_who_was_deleted_shows_the_principal(manager: Browser) -> None:
    ann = User.objects.create_user("ann")
    row = call_of(ann)
    principal = row.principal
    with connections["default"].execute_wrapper(without_calls):
        ann.delete()

    assert f'<td class="field-caller">{principal}</td>' in manager.get(LIST).text
    page = manager.get(reverse("admin:django_mcp_calls_call_change", args=[row.pk]))
    assert page.status_code == 200
    assert exported(manager)[0]["user"] == ""
    assert [client.user for client in call_numbers.stateless_clients()] == [principal]


def test_calls_of_deleted_users_are_one_line_of_the_dashboard_without_a_link(
    manager: Browser,
) -> None:
    users = [User.objects.create_user(name) for name in ("ann", "ben", "eve")]
    for user in users:
        call_of(user)
    call_of(users[2])
    with connections["default"].execute_wrapper(without_calls):
        users[0].delete()
        users[1].delete()

    lines = [(str(line.name), line.counts.calls) for line in dashboard.read(7).users]
    assert sorted(lines) == [("anonymous, or not a user", 2), ("eve", 2)]
    page = manager.get(reverse("admin:django_mcp_calls_dashboard")).text
    assert '<th scope="row">anonymous, or not a user</th>' in page
    assert "user=eve" in page


def without_calls(execute: Any, sql: str, *arguments: Any) -> Any:
    """Run a statement as in a database that does not have the call log."""
    assert Call._meta.db_table not in sql, sql
    return execute(sql, *arguments)


def listed(browser: Browser, **filters: str) -> int:
    return browser.get(LIST, filters).text.count('class="field-called"')


def exported(browser: Browser) -> list[dict[str, str]]:
    response: Any = browser.get(reverse("admin:django_mcp_calls_export"))
    return list(csv.DictReader(StringIO(b"".join(response.streaming_content).decode())))
