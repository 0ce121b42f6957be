"""Sessions in the admin: whose they are, their streams, and clients that have none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from pytest_django import Settings

from django_mcp import stores
from django_mcp.core.frame.session import Session
from django_mcp.runtime import pools
from tests.admin.site import browser_of, call, text_of

pytestmark = pytest.mark.django_db

SESSIONS = "/admin/django_mcp/mcpsession/"


def session(principal: str, **members: Any) -> Session:
    made = Session(
        id=f"secret-id {principal}",
        server="shop",
        principal=principal,
        version="2025-11-25",
        client_info={"name": "Inspector", "version": "0.9"},
        **members,
    )
    run(stores.sessions().create, made)
    return made


def run(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """What a function of a store returns, on the thread that sees the rows of the test."""
    with pools.thread_sensitive():
        return async_to_sync(function)(*arguments)


@pytest.mark.parametrize("scheme", ["django_session", "token", "oauth"])
def test_session_has_the_name_of_its_user(scheme: str) -> None:
    ann = get_user_model().objects.create_user("ann")
    made = session(f"{scheme}:{ann.pk} tenant")
    browser = browser_of("staff", "view_mcpsession")
    assert "Inspector 0.9 ann shop 2025-11-25" in text_of(browser.get(SESSIONS))
    assert "ann" in text_of(browser.get(f"{SESSIONS}{made.address}/change/"))


def test_sessions_are_found_by_the_name_of_their_user() -> None:
    ann, bob = (get_user_model().objects.create_user(name) for name in ("ann", "bob"))
    for scheme in ("token", "oauth"):
        session(f"{scheme}:{ann.pk} tenant-of-{scheme}")
    session(f"token:{ann.pk}1")
    session(f"token:{bob.pk}")
    browser = browser_of("staff", "view_mcpsession")
    text = text_of(browser.get(SESSIONS, {"q": "AN"}))
    assert text.count("Inspector 0.9 ann") == 2
    assert text.count("Inspector 0.9") == 2
    assert "Inspector 0.9 bob" in text_of(browser.get(SESSIONS, {"q": f"token:{bob.pk}"}))


def test_principal_of_another_service_is_shown_as_it_is() -> None:
    session("jwt:https://issuer.example 1")
    browser = browser_of("staff", "view_mcpsession")
    assert "jwt:https://issuer.example 1" in text_of(browser.get(SESSIONS))


def test_open_streams_are_counted_without_what_no_client_receives() -> None:
    made = session("public:")
    for name in ("g1", "g2", "p3", "outbox", "active"):
        run(stores.events().append, made.address, name, ())
    run(stores.events().close, made.address, "g2")
    browser = browser_of("staff", "view_mcpsession")
    response = browser.get(SESSIONS)
    assert b'<td class="field-open_streams">2</td>' in response.content


def test_page_of_a_session_has_what_its_client_can_and_reads() -> None:
    members = {"subscriptions": {"shop://news"}, "client_capabilities": {"sampling": {}}}
    made = session("public:", **members)
    text = text_of(browser_of("staff", "view_mcpsession").get(f"{SESSIONS}{made.address}/change/"))
    assert "shop://news" in text
    assert '"sampling": {}' in text
    assert "secret" not in text


def test_clients_without_sessions_are_listed_by_their_last_calls() -> None:
    ann = get_user_model().objects.create_user("ann")
    call(user=ann, program="Laptop")
    call(user=ann, program="Laptop", target="close", is_error=True, outcome="error")
    call(revision="2025-11-25", client_name="Old")
    browser = browser_of("staff", "view_mcpsession", "view_call")
    text = text_of(browser.get(SESSIONS))
    assert "Robot 2 ann Laptop shop 2026-07-28" in text
    assert "close 2 ✗ 1" in text
    assert "Old" not in text


def test_calls_need_the_permission_to_view_them() -> None:
    call()
    assert "Robot" not in text_of(browser_of("staff", "view_mcpsession").get(SESSIONS))


def test_sessions_in_memory_are_not_listed_and_their_page_says_so(settings: Settings) -> None:
    session("public:")
    backend = {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"}
    settings.DJANGO_MCP = {"STORES": {"sessions": backend}}
    call()
    text = text_of(browser_of("staff", "view_mcpsession", "view_call").get(SESSIONS))
    assert "cannot be listed" in text
    assert "Inspector" not in text
    assert "Robot" in text


@pytest.mark.parametrize("lookup", ["data__contains", "pk__startswith", "principal__contains"])
def test_list_is_not_filtered_by_a_column_that_it_does_not_show(lookup: str) -> None:
    browser = browser_of("reader", "view_mcpsession")

    assert browser.get(SESSIONS, {lookup: "x"}).status_code == 400
    assert browser.get(SESSIONS, {"version__contains": "x"}).status_code == 200
