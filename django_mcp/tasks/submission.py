"""Submitting a task to its runner.

A new task is submitted or given up: a client that was told 503 may repeat its call, so that a
message which arrives later must not run it as well. An approved task is never given up: it stays
approved, and is submitted again by the housekeeping, or when its caller or an approver looks at it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import TooManyRequests
from django_mcp.core.protocol.tasks import Status, Task
from django_mcp.pubsub import bus
from django_mcp.runtime import background
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import changes, runners, store
from django_mcp.tasks.run import OUTAGE, RETRY, new_holder, until_available
from django_mcp.tasks.runners.base import RunnerUnavailable
from django_mcp.tasks.store import UNAVAILABLE, Changed, NewTask

NOT_SUBMITTED = "A task cannot be submitted to its runner"


async def begin(new: NewTask) -> Task:
    """Store a task, and have it run; raises TooManyRequests if its caller has too many."""
    runner = runners.get()
    # A process which runs the task itself is answerable for it from the beginning.
    holder = new_holder() if runner.runs_here else None
    try:
        task = await store.get().create(new, holder=holder, is_started=False)
    except StoreFull as error:
        raise TooManyRequests(str(error)) from error
    await submit(task.id)
    return task


async def cancel(task_id: str) -> bool:
    """Cancel a task of any owner, for the site; False if it has ended or does not exist."""
    try:
        changed = await store.get().change(task_id, tasks.cancel)
    except tasks.TaskEnded:
        return False
    if changed is None:
        return False
    await changes.publish(changed)
    return True


async def submit(task_id: str) -> None:
    """Submit the task; raises RunnerUnavailable once it can never start.

    It is given up as well if the request is cancelled, because nobody learns its id then.
    """
    try:
        await runners.get().submit(task_id)
    except BaseException as error:
        await _give_up(task_id)
        if not isinstance(error, Exception):
            raise
        log_repeated(logging.ERROR, NOT_SUBMITTED, exc_info=error)
        raise RunnerUnavailable from error


async def submit_approved(task_id: str) -> None:
    """Submit a task that was approved; an error is logged."""
    try:
        await runners.get().submit(task_id)
    except Exception:
        log_repeated(logging.ERROR, NOT_SUBMITTED, exc_info=True)


async def submit_unstarted(pause: float) -> None:
    """Submit tasks again that were approved and not started: a message or process may be lost.

    A step of the housekeeping: nobody may look, and a client that polls a task does not count.
    """
    for task_id in await store.get().unstarted():
        await submit_approved(task_id)
        await asyncio.sleep(pause)


def submit_on_thread(changed: Changed) -> None:
    """Publish a decision, and submit a task that was approved, from synchronous code."""

    async def follow() -> None:
        task = await changes.publish(changed)
        if task.status is Status.WORKING:
            await _run_or_submit(task.id)

    _on_thread(follow)


def publish_on_thread(changed: Changed) -> None:
    """Publish a change of a task that runs already, from synchronous code."""

    async def follow() -> None:
        await changes.publish(changed)

    _on_thread(follow)


def submit_again(task_id: str) -> None:
    """Submit a task that was approved, and not started, from synchronous code."""
    _on_thread(partial(_run_or_submit, task_id))


async def _run_or_submit(task_id: str) -> None:
    runner = runners.get()
    if runner.runs_here:
        await runner.run(task_id)
    else:
        await submit_approved(task_id)


def _on_thread(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function on a thread with an event loop of its own; return at once.

    A task that runs in this process runs there: the request may have no event loop that lasts. A
    process that is told to stop waits for it.
    """
    done = background.accept_thread()

    def work() -> None:
        try:
            bus.run_in_temporary_loop(function)
        except Exception:
            log_repeated(logging.ERROR, "A decision could not be followed", exc_info=True)
        finally:
            done.set_result(None)

    threading.Thread(target=work, name="django-mcp-decision", daemon=True).start()


async def _give_up(task_id: str) -> None:
    """Delete the row, so that a late message finds nothing.

    If the database is away as well, the row is deleted when it is back: no worker can have
    started the task in the meantime.
    """
    try:
        await asyncio.shield(background.create_task(store.get().delete(task_id)))
    except UNAVAILABLE:
        background.spawn_accepted(_delete_later(task_id))


async def _delete_later(task_id: str) -> None:
    text = "A task that was given up cannot be deleted; trying again"
    await asyncio.sleep(RETRY)
    with suppress(*UNAVAILABLE):
        await until_available(partial(store.get().delete, task_id), OUTAGE, text)
