"""Tools whose answers show which request they belong to, and where it was handled."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group

from django_mcp import Approval, Frame, McpError, Server, resource, tool
from django_mcp.contrib.approvals import models
from django_mcp.middleware import RateLimit
from django_mcp.registry import default
from django_mcp.runtime import housekeeping
from django_mcp.tasks import store
from tests.conversations.sample_server import desk
from tests.services.limits import LIMIT

if apps.is_installed("django_mcp.contrib.events"):
    from tests.services.site.group_events import group_created as group_created

FORM = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

housekeeping.INTERVAL = float(
    os.environ.get("SERVICES_HOUSEKEEPING_INTERVAL", housekeeping.INTERVAL)
)

store.START_LIMIT = timedelta(seconds=25)
"""Shorter than a client of these tests waits, for tasks whose message a fault deletes."""

desk_server = desk()


async def name_caller(frame: Frame, call_next: Any) -> Any:
    """Names the user who asked, in each result; anonymous callers have no name."""
    result, after = await call_next(frame)
    name = frame.user.get_username()
    if not name or isinstance(result, McpError):
        return result, after
    return {**result, "_meta": {**result.get("_meta", {}), "user": name}}, after


default.middleware = (name_caller,)


limited_server = Server(
    "limited",
    path="/limited",
    # The period does not end while a test runs.
    middleware=[RateLimit(LIMIT, per=1e9, by="tool")],
)


@limited_server.tool
def limited() -> int:
    """Return the process that has answered."""
    return os.getpid()


@tool
def echo(token: str) -> str:
    """Answers with the token, from a thread."""
    return token


@tool
async def echo_async(token: str) -> str:
    """Answers with the token, from the event loop."""
    return token


@tool
def save(token: str) -> str:
    """Writes a row."""
    Group.objects.create(name=token)
    return token


@tool
async def save_async(token: str) -> str:
    """Writes a row, from the event loop."""
    await Group.objects.acreate(name=token)
    return token


@tool
def saved() -> str:
    """The rows that were written, as a JSON list."""
    return json.dumps(list(Group.objects.values_list("name", flat=True)))


@tool
def remember(token: str, frame: Frame) -> tuple[str, Frame]:
    """Keeps the token in the session."""
    return token, frame.assign({f"kept-{token}": True})


@tool
def recall(frame: Frame) -> str:
    """The tokens that the session keeps, as a JSON list."""
    kept = [name for name in frame.assigns if str(name).startswith("kept-")]
    return json.dumps([str(name).removeprefix("kept-") for name in kept])


@tool
async def count(token: str, seconds: float, frame: Frame) -> str:
    """Reports its progress every tenth of a second."""
    steps = max(1, round(seconds * 10))
    for step in range(1, steps + 1):
        await frame.client.aprogress(step, steps, token)
        await asyncio.sleep(0.1)
    return token


@tool(requests_input=True)
async def ask(token: str, frame: Frame) -> str:
    """Asks the client for a word."""
    answer = await frame.client.aelicit(f"A word for {token}", FORM, key="word")
    return f"{token} {answer.content['word']}" if answer.accepted else f"{token} declined"


@tool
async def notify_change(uri: str) -> str:
    """Announces that a resource has changed."""
    await default.anotify_resource_updated(uri)
    return uri


@tool
async def notify_tools(token: str) -> str:
    """Announces that the list of tools has changed."""
    await default.anotify_tools_list_changed()
    return token


@tool
async def large(token: str, size: int) -> str:
    """Answers with much."""
    return token + "x" * size


@tool
async def usage() -> dict[str, int]:
    """What this worker uses."""
    gc.collect()
    statistics = Path("/proc/self/statm").read_text().split()
    return {
        "worker": os.getpid(),
        "memory": int(statistics[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
    }


@resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return f"The note {name}"


@tool
def read_and_ask(token: str, frame: Frame) -> str:
    """Reads a row, and asks the client for a word."""
    Group.objects.exists()
    answer = frame.client.elicit(f"A word for {token}", FORM, key="word")
    Group.objects.create(name=token)
    return f"{token} {answer.content['word']}"


@tool
async def read_and_ask_async(token: str, frame: Frame) -> str:
    """Reads a row, and asks the client for a word."""
    await Group.objects.aexists()
    answer = await frame.client.aelicit(f"A word for {token}", FORM, key="word")
    await Group.objects.acreate(name=token)
    return f"{token} {answer.content['word']}"


@tool
def report(token: str, steps: int, frame: Frame) -> str:
    """Reports its progress without a pause."""
    for step in range(steps):
        frame.client.progress(step, steps, "x" * 1000)
    return token


def run_once(token: str, seconds: float, frame: Frame) -> str:
    """Note the start of a call in a file, which outlives its process, and take some time."""
    with Path(os.environ["SERVICES_STARTED"]).open("a") as file:
        file.write(f"{token}\n")
    time.sleep(seconds)
    return f"{token} {frame.user.get_username()}"


@tool(task_support="required")
def work(token: str, seconds: float, frame: Frame) -> str:
    """A task."""
    return run_once(token, seconds, frame)


@tool(approval=Approval("auth.change_group", four_eyes=True))
def pay(token: str, seconds: float, frame: Frame) -> str:
    """A call that waits for the approval of another user."""
    return run_once(token, seconds, frame)


@tool(approval=Approval("auth.change_group", four_eyes=True), task_support="required")
def pay_as_task(token: str, seconds: float, frame: Frame) -> str:
    """A task that waits for the approval of another user."""
    return run_once(token, seconds, frame)


@tool
def approve(id: str, frame: Frame) -> str:
    """Approves a call; says so also if it was decided before."""
    row = models.Approval.objects.get(pk=id)
    row.decide_on_page(frame.user, models.Decision.APPROVE, where="test")
    return id
