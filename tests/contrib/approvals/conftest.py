"""The server of these tests, on a site with the pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.contrib.approvals import prompts
from django_mcp.runtime import background
from django_mcp.tasks import changes, submission
from tests.contrib.approvals import till
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]


@pytest.fixture(autouse=True)
def server(configure: Any, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The till, as the only server of the site."""
    configure(BASE_URL="https://till.example")
    monkeypatch.setattr(changes, "POLL", 0.02)
    monkeypatch.setattr(prompts, "PAGE_WAIT", 0.05)
    monkeypatch.setattr(prompts, "MIN_TIME", 0.0)
    till.carried_out.clear()
    till.released.clear()
    server = till.till()
    till.register(server, monkeypatch)
    return server


@pytest.fixture(autouse=True)
def threads_of_decisions(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a decision return when what follows it is done. Call it to have the usual threads."""
    begin = submission.follow

    def begin_and_wait(*args: Any, **kwargs: Any) -> None:
        before = set(background.running.threads)
        begin(*args, **kwargs)
        for future in background.running.threads - before:
            future.result(SECONDS)

    def restore() -> None:
        monkeypatch.setattr(submission, "follow", begin)

    monkeypatch.setattr(submission, "follow", begin_and_wait)
    return restore


@pytest.fixture
def ann(db: None) -> User:
    """A caller without the permission to approve."""
    return till.user("ann")


@pytest.fixture
def bob(db: None) -> User:
    """A person who may approve."""
    return till.user("bob", till.PERMISSION)
