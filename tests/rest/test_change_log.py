"""Middleware of a site around the calls of its views: a change log that remembers who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db.models.signals import post_save

from django_mcp import Server, checks, registry
from django_mcp.rest import rest_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Ticket
from tests.rest import api
from tests.rest.conftest import Users

CHANGE_LOG = f"{__name__}.change_log"
ID = "django_mcp_openapi.W003"

caller: ContextVar[Any] = ContextVar("caller", default=None)
changes: list[tuple[str, str]] = []


def change_log(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Remember the user of a request, as django-simple-history does."""

    def middleware(request: Any) -> Any:
        token = caller.set(request.user)
        try:
            return get_response(request)
        finally:
            caller.reset(token)

    return middleware


def write_change(instance: Ticket, **_: Any) -> None:
    if caller.get() is not None:
        changes.append((caller.get().username, instance.subject))


@pytest.fixture(autouse=True)
def _signal() -> Iterator[None]:
    changes.clear()
    post_save.connect(write_change, sender=Ticket)
    yield
    post_save.disconnect(write_change, sender=Ticket)


@pytest.mark.parametrize(("paths", "expected"), [([], []), ([CHANGE_LOG], [("agent", "New")])])
def test_middleware_that_is_listed_runs_around_a_tool(
    server: Server, users: Users, tickets: Any, settings: Any, paths: Any, expected: Any
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": paths}
    rest_tools(api.TicketViewSet, ["partial_update"], server=server)

    with SyncClient(server, user=users.agent, transport="http") as client:
        arguments = {"id": tickets[0].pk, "subject": "New"}
        assert not client.call_tool("ticket_partial_update", arguments).is_error

    assert changes == expected


def test_check_names_middleware_that_tools_skip(
    server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names() -> list[str]:
        found = run_checks(tags=[checks.TAG])
        return [each.msg.rpartition(": ")[2] for each in found if each.id == ID]

    monkeypatch.setattr(registry.registered, "servers", {"api": server})
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware", CHANGE_LOG]
    assert names() == []
    rest_tools(api.TicketViewSet, server=server)
    assert names() == [f"{CHANGE_LOG}."]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": [CHANGE_LOG]}
    assert names() == []
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": "all"}
    assert names() == []
