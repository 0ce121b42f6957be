"""A site in one module: a WSGI application for tests under several WSGI servers.

The database is the file that SITE_DATABASE names.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for this test",
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["SITE_DATABASE"],
            "CONN_MAX_AGE": 60,
        }
    },
    ROOT_URLCONF="tests.wsgi.one_site",
    WSGI_APPLICATION="tests.wsgi.one_site.application",
    DJANGO_MCP={
        "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
        "SHUTDOWN_TIMEOUT": 3.0,
        "WSGI_STREAMS": int(os.environ.get("SITE_STREAMS", "0")),
    },
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from django_mcp import Frame, tool  # noqa: E402
from django_mcp.routing import mount  # noqa: E402


def page(request: HttpRequest) -> HttpResponse:
    """Names the threads of the process."""
    return HttpResponse("\n".join(thread.name for thread in threading.enumerate()))


urlpatterns = [path("page", page)]


@tool
async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@tool
def add_in_thread(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@tool
def where() -> list[str]:
    """The process and the thread of a synchronous handler, and its connection."""
    connection.ensure_connection()
    process = str(os.getpid())
    return [process, threading.current_thread().name, str(id(connection.connection))]


@tool
async def count(frame: Frame) -> str:
    """Counts to three and sends progress notifications."""
    for number in (1, 2, 3):
        await frame.client.aprogress(number, 3)
    return "done"


@tool
async def tick(frame: Frame, ended: str) -> None:
    """Sends progress notifications until it is cancelled; a file records that."""
    try:
        for number in range(1, 1_000_000):
            await frame.client.aprogress(number)
            await asyncio.sleep(0.02)
    finally:
        Path(ended).touch()


@tool
def sleep_in_thread(seconds: float, started: str) -> str:
    """Sleeps, after it has made a file."""
    Path(started).touch()
    time.sleep(seconds)
    return "slept"


@tool
async def wait(started: str) -> None:
    """Waits until it is cancelled, after it has made a file."""
    Path(started).touch()
    await asyncio.Event().wait()


@tool(task_support="required")
def work(seconds: float, started: str) -> str:
    """A task on a thread, which makes a file when it begins."""
    Path(started).touch()
    time.sleep(seconds)
    return f"{Group.objects.count()} groups"


@tool(task_support="required")
async def work_in_loop(seconds: float, started: str) -> str:
    """A task in the event loop, whose first query comes at its end."""
    Path(started).touch()
    await asyncio.sleep(seconds)
    return f"{await Group.objects.acount()} groups"


@tool(requests_input=True)
async def ask(frame: Frame) -> str:
    """Asks the user for their name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answer = await frame.client.aelicit("Your name?", schema)
    return f"{answer.action}: {(answer.content or {}).get('name')}"


@tool
async def size(text: str) -> int:
    """The length of a text."""
    return len(text)


@tool
async def end_loop() -> str:
    """Ends the event loop of the process, in which it runs."""
    asyncio.get_running_loop().call_soon(_exit)
    await asyncio.Event().wait()
    return "never"


def _exit() -> None:
    raise SystemExit


application = mount(get_wsgi_application())
asgi_application = mount(get_asgi_application())
