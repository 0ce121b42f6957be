"""A site with sessions and tools that take their time, whose process is told to stop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import django
from django.conf import settings

MEMORY = {
    kind: {"BACKEND": f"django_mcp.stores.memory.Memory{name}Store"}
    for kind, name in (("sessions", "Session"), ("events", "Event"))
}
settings.configure(
    SECRET_KEY="only for this test",
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    ROOT_URLCONF="tests.asgi_servers.stop_site",
    DJANGO_MCP={
        "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
        "STORES": MEMORY,
        "SHUTDOWN_TIMEOUT": 4.0,
    },
)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from django_mcp import Frame, tool  # noqa: E402
from django_mcp.routing import mount  # noqa: E402


async def slow_page(request: HttpRequest) -> HttpResponse:
    """A page of the site besides MCP, which takes a second, after it has made a file."""
    Path(request.GET["started"]).touch()
    await asyncio.sleep(1)
    return HttpResponse("page")


urlpatterns = [path("page", slow_page)]


@tool
async def sleep(seconds: float, started: str) -> str:
    """Sleeps, after it has made a file."""
    Path(started).touch()
    await asyncio.sleep(seconds)
    return "slept"


@tool
def sleep_in_thread(seconds: float, started: str) -> str:
    """Sleeps, after it has made a file."""
    Path(started).touch()
    time.sleep(seconds)
    return "slept"


@tool
async def block(seconds: float, started: str) -> str:
    """Blocks the event loop, so that nothing is accepted or read meanwhile."""
    Path(started).touch()
    time.sleep(seconds)
    return "slept"


@tool(requests_input=True)
async def ask(frame: Frame) -> str:
    """Asks the user for their name."""
    answer = await frame.client.aelicit("Your name?", {"type": "object", "properties": {}})
    return answer.action


application = mount(get_asgi_application())
