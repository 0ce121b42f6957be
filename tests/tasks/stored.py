"""Tasks that tests store, and time that passes for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from django_mcp.models import McpTask
from django_mcp.tasks.store import NewTask, TaskStore

LEASE = 60.0


def new(owner: str = "ada", ttl_ms: int = 60_000) -> NewTask:
    return NewTask(
        server="shop",
        tool="work",
        version="2026-07-28",
        principal=f"test:{owner}",
        user_key="",
        owner=owner,
        caller=owner,
        call={"params": {}},
        ttl_ms=ttl_ms,
    )


def pass_time(seconds: float, **chosen: Any) -> None:
    """Let the leases of tasks, and what was noted of them, be older."""
    past = timedelta(seconds=seconds)
    rows = McpTask._default_manager.filter(**chosen)
    rows.update(lease_until=F("lease_until") - past, overdue_at=F("overdue_at") - past)


def make_store(**options: Any) -> TaskStore:
    return TaskStore(**{"lease": LEASE, "limit": 100_000, "poll_interval": 1.0, **options})
