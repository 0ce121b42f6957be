"""A server which uses the database at every door but a handler's."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection

from django_mcp import Frame, Server


async def names() -> list[str]:
    """A query."""
    return [user.username async for user in get_user_model().objects.all()]


async def count_users(frame: Frame) -> dict[str, Any]:
    """A frame processor."""
    return {"users": len(await names())}


async def middleware(frame: Frame, call_next: Any) -> Any:
    """A middleware which asks the database."""
    if "middleware" in str(frame.request and frame.request.params):
        await names()
    return await call_next(frame)


async def may_use(frame: Frame) -> bool:
    """A permission function."""
    return bool(await names())


guarded = Server("guarded", path="/guarded", middleware=[middleware])


@guarded.tool
def public() -> str:
    """Needs nothing."""
    return "done"


@guarded.tool
async def by_middleware() -> str:
    """Passes a middleware which asks the database."""
    return "done"


@guarded.tool(permission="auth.add_user")
async def by_string() -> str:
    """Needs a permission."""
    return "done"


@guarded.tool(permission=may_use)
async def by_function() -> str:
    """Needs a permission."""
    return "done"


@guarded.tool
def in_transaction() -> bool:
    """Whether the thread is left in a transaction."""
    return connection.in_atomic_block


@guarded.prompt
def greet(name: str) -> str:
    """Greets."""
    return f"Hello {name}"


async def complete_name(value: str) -> list[str]:
    """A completer which asks the database."""
    return await names()


@guarded.prompt(complete={"name": complete_name})
def greet_user(name: str) -> str:
    """Greets a user."""
    return f"Hello {name}"


@guarded.hook
async def on_initialize(client_info: Any, capabilities: Any, frame: Frame) -> None:
    """A hook which asks the database."""
    await names()


@guarded.hook
async def handle_notification(method: str, params: Any, frame: Frame) -> None:
    """A hook which notes in the database that it was called."""
    await Group.objects.acreate(name=f"{method} {params.get('number')}")
