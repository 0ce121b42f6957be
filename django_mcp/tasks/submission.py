"""Submitting a task to its runner, or giving it up.

A task is submitted or given up; a client that was told 503 may repeat its call, so that a message
which arrives later must not run it as well.
"""

from __future__ import annotations

import asyncio
import logging

from django_mcp.log import log_repeated
from django_mcp.runtime import background
from django_mcp.tasks import runners, store
from django_mcp.tasks.run import RETRY, STORE_RESULT, UNAVAILABLE
from django_mcp.tasks.runners.base import RunnerUnavailable


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
        log_repeated(logging.ERROR, "A task cannot be submitted to its runner", exc_info=error)
        raise RunnerUnavailable from error


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
    loop = asyncio.get_running_loop()
    until = loop.time() + STORE_RESULT
    while loop.time() < until:
        await asyncio.sleep(RETRY)
        try:
            return await store.get().delete(task_id)
        except UNAVAILABLE:
            text = "A task that was given up cannot be deleted; trying again"
            log_repeated(logging.WARNING, text, exc_info=True)
