"""Tools that run as tasks in worker processes, and note in files what they do."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.tasks import store

store.LEASE = float(os.environ.get("TASKS_LEASE", "30"))

jobs = Server("jobs", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
FOLDER = Path(os.environ.get("TASKS_FOLDER", "."))


class Name(BaseModel):
    name: str


def note(name: str, line: object) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{line}\n")


@jobs.tool(task_support="required")
def process(seconds: float, frame: Frame) -> str:
    """Works for some seconds; returns the id of its process."""
    until, started = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < until:
        frame.cancellation.raise_if_requested()
        frame.client.progress(time.monotonic() - started, seconds, f"In {os.getpid()}")
        time.sleep(0.05)
    return str(os.getpid())


@jobs.tool(task_support="required")
def loop(frame: Frame) -> str:
    """Notes that it runs until it is cancelled."""
    try:
        while True:
            frame.cancellation.raise_if_requested()
            note("loop", time.monotonic())
            time.sleep(0.02)
    finally:
        note("loop", "ended")


@jobs.tool(task_support="required")
def once(number: int) -> str:
    """Notes its number."""
    note("once", number)
    return str(number)


@jobs.tool(task_support="required")
def greet(frame: Frame) -> str:
    """Asks for a name."""
    answer = frame.client.elicit("Your name?", Name, key="name")
    return f"Hello, {answer.content.name}!"
