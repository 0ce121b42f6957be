"""Tasks in the admin: listed without arguments, and cancelled by an action."""

from __future__ import annotations

import os
import socket

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp.core.protocol import tasks
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.tasks import store, submission
from django_mcp.tasks.run import new_lease_owner
from tests.tasks.stored import new

pytestmark = pytest.mark.django_db

URL = "/admin/django_mcp/mcptask/"


@pytest.fixture
def browser(client: Browser) -> Browser:
    client.force_login(get_user_model().objects.create_superuser("manager"))
    return client


def create() -> str:
    with pools.thread_sensitive():
        task = async_to_sync(store.get().create)(new(), lease_owner=None, is_started=False)
    return str(task.id)


def test_task_is_shown_with_its_result_and_without_arguments(browser: Browser) -> None:
    key = create()
    with pools.thread_sensitive():
        result = {"content": [{"type": "text", "text": "A result"}]}
        async_to_sync(store.get().change)(key, lambda task: tasks.complete(task, result))

    listed = browser.get(URL).content.decode()
    # An id may contain what the admin escapes in its URLs, such as "_3A".
    shown = browser.get(f"{URL}{quote(key)}/change/").content.decode()

    assert f"{quote(key)}/change/" in listed
    assert "completed" in shown
    assert "A result" in shown
    assert McpTask._default_manager.get(pk=key).call not in shown


def test_tasks_have_the_names_of_their_users_which_are_read_at_once(browser: Browser) -> None:
    users = [get_user_model().objects.create_user(f"user-{number}") for number in range(3)]
    for user in users:
        create()
        McpTask._default_manager.filter(user_key="").update(user_key=str(user.pk))
    with CaptureQueriesContext(connection) as queries:
        listed = browser.get(URL).content.decode()
    assert all(f"user-{number} (" in listed for number in range(3))
    assert sum("auth_user" in query["sql"] for query in queries) == 2, "the reader, and the owners"
    shown = browser.get(URL, {"q": "user-1"}).content.decode()
    assert "user-1 (" in shown
    assert "user-2 (" not in shown


def test_action_cancels_active_tasks(browser: Browser) -> None:
    key = create()
    action = {"action": "cancel_selected", "_selected_action": [key]}

    browser.post(URL, action)
    again = browser.post(URL, action, follow=True).content.decode()

    assert McpTask._default_manager.get(pk=key).status == "cancelled"
    assert "0 tasks were cancelled" in again


def test_list_says_who_runs_a_task_and_how_many_wait(browser: Browser) -> None:
    waiting, running = create(), create()
    lease_owner = new_lease_owner()
    McpTask._default_manager.filter(pk=running).update(
        started_at=timezone.now(), lease_owner=lease_owner
    )
    page = browser.get(URL).content.decode()
    assert "1 running, 1 waiting for a worker" in page
    assert "waits for a worker" in page
    assert f">{socket.gethostname()[:30]}:{os.getpid()}<" in page
    assert lease_owner not in browser.get(f"{URL}{quote(running)}/change/").content.decode()
    assert "waits for a worker" in browser.get(f"{URL}{quote(waiting)}/change/").content.decode()


def test_action_submits_what_waits_again(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[str] = []
    monkeypatch.setattr(submission, "follow", lambda *, submit: submitted.extend(submit))
    waiting, running = create(), create()
    McpTask._default_manager.filter(pk=running).update(started_at=timezone.now())
    action = {"action": "submit_selected", "_selected_action": [waiting, running]}
    page = browser.post(URL, action, follow=True).content.decode()
    assert submitted == [waiting]
    assert "1 task was submitted again" in page


def test_page_of_a_task_links_to_its_tool_and_owner(browser: Browser) -> None:
    key = create()
    user = get_user_model().objects.create_user("owner")
    McpTask._default_manager.filter(pk=key).update(user_key=str(user.pk))
    page = browser.get(f"{URL}{quote(key)}/change/").content.decode()
    assert f'href="/admin/auth/user/{user.pk}/change/"' in page
    assert 'href="/admin/django_mcp_calls/call/?component=' in page
