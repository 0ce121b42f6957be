"""A site in one module: an ASGI application for tests under several ASGI servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for this test",
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    ROOT_URLCONF="tests.asgi_servers.one_server",
    DJANGO_MCP={"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]},
)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402

from django_mcp import Frame, tool  # noqa: E402
from django_mcp.routing import mount  # noqa: E402

urlpatterns: list[object] = []


@tool
async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@tool
def add_in_thread(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@tool
async def count(frame: Frame) -> str:
    """Counts to three and sends progress notifications."""
    for number in (1, 2, 3):
        await frame.client.aprogress(number, 3)
    return "done"


@tool
async def wait(started: str, ended: str) -> None:
    """Waits until it is cancelled; files record its start and its cancellation."""
    Path(started).touch()
    try:
        await asyncio.Event().wait()
    finally:
        Path(ended).touch()


@tool
async def interrupt() -> None:
    """Raises what ends an event loop."""
    raise KeyboardInterrupt


@tool
def interrupt_thread() -> None:
    """Raises what ends an event loop, in a thread."""
    raise KeyboardInterrupt


application = mount(get_asgi_application())
