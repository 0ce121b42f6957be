"""Submitting a task to its runner.

A new task is submitted, or given up: a client that received 503 may repeat its call, so that a late
message must not run the first one as well. An approved task is never given up: it stays approved,
and is submitted again by the housekeeping, or when its caller or an approver looks at it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Collection
from contextlib import suppress
from functools import partial
from math import log2

from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import TooManyRequests
from django_mcp.core.protocol.tasks import Task
from django_mcp.pubsub import bus
from django_mcp.runtime import background
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import changes, runners, store
from django_mcp.tasks.run import OUTAGE, RETRY, new_lease_owner, until_available
from django_mcp.tasks.runners.base import RunnerUnavailable
from django_mcp.tasks.store import UNAVAILABLE, Changed, NewTask

NOT_SUBMITTED = "A task cannot be submitted to its runner"
NOT_FOLLOWED = "A decision could not be followed"
MAX_AT_ONCE = 100
"""Tasks that one round submits again: other steps of the round have time as well."""


async def begin(new: NewTask) -> Task:
    """Store a task, and submit it.

    Raises TooManyRequests if its caller has too many, and RunnerUnavailable once it can never
    start. It is given up as well if the request is cancelled, because nobody learns its id then.
    """
    runner = runners.get()
    # A process that runs the task itself leases it from the beginning.
    lease_owner = new_lease_owner() if runner.runs_here else None
    try:
        task = await store.get().create(new, lease_owner=lease_owner, is_started=False)
    except StoreFull as error:
        raise TooManyRequests(str(error)) from error
    try:
        await runner.submit(task.id)
    except BaseException as error:
        await _give_up(task.id)
        if not isinstance(error, Exception):
            raise
        log_repeated(logging.ERROR, NOT_SUBMITTED, exc_info=error)
        raise RunnerUnavailable from error
    return task


async def _give_up(task_id: str) -> None:
    """Delete the row, so that a late message finds nothing.

    If the database is away as well, the row is deleted when it is back: no worker can have
    started the task in the meantime.
    """

    async def delete_later() -> None:
        text = "A task that was given up cannot be deleted; trying again"
        await asyncio.sleep(RETRY)
        with suppress(*UNAVAILABLE):
            await until_available(partial(store.get().delete, task_id), OUTAGE, text)

    try:
        await asyncio.shield(background.create_task(store.get().delete(task_id)))
    except UNAVAILABLE:
        background.spawn_accepted(delete_later())


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


async def submit_approved(task_id: str) -> bool:
    """Submit a task that was approved; return whether it was. An error is logged."""
    try:
        await runners.get().submit(task_id)
    except Exception:
        log_repeated(logging.ERROR, NOT_SUBMITTED, exc_info=True)
        return False
    return True


async def submit_unstarted(pause: float) -> None:
    """Submit tasks again that were approved and not started: a message or process may be lost.

    It is a step of the housekeeping, for tasks that no person looks at. Where all workers are busy
    for hours, messages are few: a task is submitted again when it has waited for about twice as
    long as the last time, and then once an hour.
    """
    waiting = [task_id for task_id, age in await store.get().unstarted() if _is_due(age)]
    for task_id in waiting[:MAX_AT_ONCE]:
        if not await submit_approved(task_id):
            return  # The broker is away, for the others as well.
        await asyncio.sleep(pause)


def _is_due(age: float) -> bool:
    """Whether a task that has waited for ``age`` seconds is submitted in this round."""
    period = HOUR if age >= HOUR else 2.0 ** int(log2(max(age, 1.0)))
    return age % period < ROUNDS


HOUR = 3600.0
ROUNDS = 120.0
"""Seconds within which there is at least one round of the housekeeping."""


def follow(*changed: Changed, submit: Collection[str] = ()) -> None:
    """Publish changes from synchronous code, and submit the approved tasks with the ids ``submit``.

    It has one thread with an event loop for all of them, and returns at once. Errors are logged.

    Tasks that run in this process run there, because the request may have no event loop that
    lasts. A process that is told to stop waits for them.
    """
    done = background.accept_thread()

    async def publish_and_submit() -> None:
        for one in changed:
            await _try(changes.publish(one))
        runner = runners.get()
        run = runner.run if runner.runs_here else submit_approved
        await asyncio.gather(*(_try(run(task_id)) for task_id in submit))

    def work() -> None:
        try:
            bus.run_in_temporary_loop(publish_and_submit)
        finally:
            done.set_result(None)

    try:
        threading.Thread(target=work, name="django-mcp-decision", daemon=True).start()
    except RuntimeError:  # The process has no thread left: the housekeeping submits them.
        done.set_result(None)
        log_repeated(logging.ERROR, NOT_FOLLOWED, exc_info=True)


async def _try(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception:
        log_repeated(logging.ERROR, NOT_FOLLOWED, exc_info=True)
