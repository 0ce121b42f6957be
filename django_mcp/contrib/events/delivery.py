"""Delivering to webhooks: at least once, and in order for each subscription.

All state is in the rows. These rules hold for every process that delivers:

1. It works on a subscription only while it holds the lease, which it takes by one UPDATE of a due
   row (``claim``). A lease that is not renewed ends, and another process goes on.
2. Each further UPDATE of the turn has the lease, the status and the position as its condition
   (``Turn._own``). If it changes no row, another process or a client was faster: the turn ends
   (``Lost``), and stores nothing.
3. The position moves behind an occurrence that was accepted, was abandoned, or is hidden from the
   subscriber. The next one is not sent before: the order is kept. Only a client sets the position
   back, by ``events/subscribe`` with a cursor.
4. An outcome is stored after the request. A process that dies in between leaves the position where
   it was, and the request is repeated: at least once.

A subscription that is active or ending moves between these conditions:

================= ======================================= ====================================
it is             until                                   then
================= ======================================= ====================================
idle              an occurrence is committed, a delivery  due
                  is to be repeated, or it is *ending*
due               a deliverer claims it                   leased, for LEASE seconds at a time
leased            all is delivered, or TURN messages were idle or due
                  an attempt has failed                   waiting, for a time of BACKOFF
                  its process dies                        due, when the lease ends
waiting           that time is over                       due; after the last time, the message
                                                          is abandoned, and the next one is due
================= ======================================= ====================================

``Subscription.status``:

========= =================================== ================================================
status    meaning                             who moves it there
========= =================================== ================================================
active    it is delivered to                  ``events/subscribe``, from every status
suspended it is not delivered to              ``Turn``, when a message is abandoned, and nothing
                                              was accepted for SUSPEND_AFTER
ending    its receiver is to be told that it  ``Turn``, when its caller may not have it any more
          has ended
ended     nothing more is sent                ``Turn``, when the receiver was told, or could not
                                              be; an administrator, or its user on their page
========= =================================== ================================================

``Delivery.status``. There is no row before the first attempt:

========= =================================== ================================================
status    meaning                             who moves it there
========= =================================== ================================================
pending   it is sent again                    ``Turn``, after an attempt that failed;
                                              ``redeliver``, for an administrator
delivered the receiver has accepted it        ``Turn``
abandoned nothing more is attempted           ``Turn``, after the last attempt, or at once if a
                                              further one is pointless (``Outcome.is_final``)
========= =================================== ================================================

A delivery that an administrator sends again is besides the position: it holds up no other one.

``wake`` and a timer submit the job to the runner of tasks that the site has: in the process, where
it runs at once, or to the workers of Celery and others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from django.db import router, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_mcp.contrib.events import occurrences, recipients, webhook_requests
from django_mcp.contrib.events.errors import Forbidden
from django_mcp.contrib.events.models import (
    Delivery,
    DeliveryStatus,
    Occurrence,
    Status,
    Subscription,
)
from django_mcp.contrib.events.recipients import AWAY
from django_mcp.contrib.events.webhook_requests import Message, Outcome
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import LoopTimer
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.pubsub import bus, switches
from django_mcp.runtime import background, housekeeping, pools
from django_mcp.tasks import database_clock, runners
from django_mcp.tasks.database_clock import Now

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

JOB = "events"
"""The name of the deliveries for the runner of tasks."""
LEASE = timedelta(seconds=30)
"""How long a subscription waits for a deliverer that has died; longer than an attempt takes."""
RENEW_AFTER = LEASE.total_seconds() / 3
"""Seconds until a lease is renewed before the next attempt."""
BACKOFF = (10.0, 60.0, 180.0, 420.0)
"""Seconds after each failed attempt; one more attempt than these, in about eleven minutes."""
MAX_WAIT = 900.0
"""The most seconds of a receiver's Retry-After."""
SUSPEND_AFTER = timedelta(hours=24)
"""How long nothing may succeed until a subscription is suspended."""
CONCURRENCY = 8
"""Subscriptions that one process delivers to at once."""
MAX_OF_CALLER = 6
"""Those of one caller among them: slow receivers of theirs do not hold up everybody else's."""
TURN = 50
"""Messages of one subscription, before others have their turn."""
BATCH = 50
"""Occurrences that are read at once."""
FRESH = 1.0
"""Seconds of use of an answer of ``recipients.bodies``: then, permissions are asked again."""
POLL = 3.0
"""Seconds between two looks at the tables in one process, for commits of other processes."""
PAUSE = 0.05
"""Seconds from a wake-up to the look for work: many commits make one."""
SUBMIT_AFTER = 0.5
"""Seconds of collecting wake-ups, before a broker is sent a message."""
FAULT_PAUSE = timedelta(minutes=1)
"""How long a subscription rests that cannot be worked on because of a fault of the site."""


class Lost(Exception):
    """The lease is over, or the subscription was changed or deleted."""


class Waiting(Exception):
    """The next attempt is later."""


def _alias() -> str:
    return router.db_for_write(Subscription)


def _in_thread(function: Callable[..., T], *args: Any) -> Any:
    return pools.run_in_threads_of(webhook_requests.THREADS_OF_QUERIES, partial(function, *args))


# Finding work.


def with_work() -> QuerySet[Subscription]:
    """Return the due subscriptions that have something to send."""
    newer = Occurrence._default_manager.using(_alias()).filter(
        server=OuterRef("server"), event=OuterRef("event"), position__gt=OuterRef("position")
    )
    due = Subscription.objects.current().due()
    return due.filter(Exists(newer) | Exists(_repeated(OuterRef("pk"))) | Q(status=Status.ENDING))


def _repeated(subscription: Any) -> QuerySet[Delivery]:
    """Return deliveries to repeat: pending ones that the position has passed."""
    pending = Delivery._default_manager.using(_alias()).filter(
        subscription=subscription,
        status=DeliveryStatus.PENDING,
        next_attempt_at__lte=Now(),
    )
    return pending.filter(
        Q(occurrence=None) | Q(occurrence__position__lte=F("subscription__position"))
    )


def has_work() -> bool:
    occurrences.number()
    return with_work().exists()


def claim(most: int, running: Sequence[Subscription] = ()) -> list[Subscription]:
    """Lease up to so many subscriptions, those that have waited longest first.

    With those that are ``running``, one caller has at most MAX_OF_CALLER.
    """
    occurrences.number()
    order = F("next_attempt_at").asc(nulls_first=True)
    waiting = with_work().order_by(order, "created_at").values_list("pk", "counted_by")
    by_caller = Counter(row.counted_by for row in running)
    claimed: list[Subscription] = []
    while len(claimed) < most:
        full = [caller for caller, number in by_caller.items() if number >= MAX_OF_CALLER]
        # Others look at the same rows at the same time.
        candidates = list(waiting.exclude(counted_by__in=full)[: 2 * most])
        before = len(claimed)
        for key, caller in candidates:
            if len(claimed) < most and by_caller[caller] < MAX_OF_CALLER:
                leased = _lease(key)
                by_caller[caller] += len(leased)
                claimed += leased
        if len(claimed) == before or len(candidates) < 2 * most:
            break
    return claimed


def _lease(key: str) -> list[Subscription]:
    """Lease a subscription: it alone, or nothing if another process was faster."""
    owner = secrets.token_urlsafe(16)
    row = Subscription.objects.current().due().order_by().filter(pk=key)
    if not row.update(lease_owner=owner, lease_until=database_clock.after(LEASE)):
        return []
    return list(Subscription.objects.current().filter(pk=key, lease_owner=owner))


# The turn of a subscription.


class Turn:
    """The requests to one leased subscription, until ``is_over`` is true."""

    def __init__(self, subscription: Subscription, is_over: Callable[[], bool]) -> None:
        self.row = subscription
        self._is_over = is_over
        self._lease_owner = subscription.lease_owner
        self._renewed_at = time.monotonic()
        self._left = TURN

    async def run(self) -> None:
        """Send the due occurrences, and give the lease back."""
        try:
            if self.row.status == Status.ENDING:
                error = json.loads(self.row.end_error)
                message = Message.control("terminated", error=error)
                await self._send(message, self.row.position)
            else:
                await self._repeat()
                await self._deliver()
            await _in_thread(self._release)
        except (Lost, Waiting):
            return
        except recipients.Terminated as ended:
            await _in_thread(self._terminate, ended.to_json())
        except AWAY:
            log_repeated(logging.WARNING, "Events cannot be delivered now", exc_info=True)
        except Exception:
            logger.exception("The event subscription %s cannot be worked on", self.row.pk)
            await _in_thread(self._release, FAULT_PAUSE)

    async def _deliver(self) -> None:
        while self._may_go_on():
            batch = await _in_thread(self._read)
            if batch.is_truncated:
                # Events are missing before the next one.
                following = batch.occurrences[:1]
                first = _position(following[0]) - 1 if following else batch.position
                cursor = occurrences.cursor_of_subscription(self.row, first)
                await self._send(Message.control("gap", cursor=cursor), first)
            if not batch.occurrences:
                await _in_thread(self._move, batch.position)
                return
            bodies = await recipients.bodies(self.row, batch.occurrences)
            await self._send_batch(batch.occurrences, bodies)

    def _may_go_on(self) -> bool:
        return self._left > 0 and not self._is_over()

    def _read(self) -> occurrences.Batch:
        """Return the next occurrences."""
        row = self._read_again()
        return occurrences.after(row.server, row.event, row.position, BATCH)

    def _read_again(self) -> Subscription:
        """Read the subscription again, with its secret; raises Lost."""
        row = self._own().first()
        if row is None:
            raise Lost
        self.row = row
        return row

    async def _send_batch(
        self, rows: Sequence[Occurrence], bodies: Sequence[dict[str, Any] | None]
    ) -> None:
        """Send the bodies while they are fresh; an occurrence without one is passed over."""
        until = time.monotonic() + FRESH
        passed = self.row.position
        for occurrence, body in zip(rows, bodies, strict=True):
            if body is not None:
                if time.monotonic() > until or not self._may_go_on():
                    break
                if passed > self.row.position:
                    await _in_thread(self._move, passed)
                cursor = occurrences.cursor_of_subscription(self.row, _position(occurrence))
                encoded = jsonrpc.encode({**body, "cursor": cursor})
                message = Message(occurrence.event_id, encoded)
                await self._send(message, _position(occurrence), occurrence)
            passed = _position(occurrence)
        if passed > self.row.position:
            await _in_thread(self._move, passed)

    async def _send(
        self, message: Message, position: int, occurrence: Occurrence | None = None
    ) -> None:
        """Send a message, and move to its position; raises Waiting if it is to be repeated."""
        outcome = await self._attempt(message)
        if await _in_thread(self._record, outcome, position, occurrence):
            raise Waiting

    async def _repeat(self) -> None:
        """Send repetitions, in batches whose bodies are fresh."""
        while self._may_go_on() and (pending := await _in_thread(self._repeated)):
            waiting = [each.occurrence for each in pending if each.occurrence is not None]
            bodies = await recipients.bodies(self.row, waiting) if waiting else []
            by_id: dict[int | None, Any] = {
                row.pk: body for row, body in zip(waiting, bodies, strict=True)
            }
            await self._send_repetitions(pending, by_id)

    async def _send_repetitions(
        self, pending: Sequence[Delivery], bodies: Mapping[int | None, dict[str, Any] | None]
    ) -> None:
        """Send them with the cursor of now, since they come out of order."""
        until = time.monotonic() + FRESH
        for delivery in pending:
            body = bodies.get(delivery.occurrence_id)
            outcome = Outcome(False, is_final=True)
            if body is not None:
                cursor = occurrences.cursor_of_subscription(self.row, self.row.position)
                message = Message(delivery.event_id, jsonrpc.encode({**body, "cursor": cursor}))
                outcome = await self._attempt(message)
            await _in_thread(self._record_repeated, delivery, outcome)
            if time.monotonic() > until or not self._may_go_on():
                return

    def _repeated(self) -> list[Delivery]:
        self._read_again()
        return list(_repeated(self.row.pk).select_related("occurrence").order_by("id")[:BATCH])

    async def _attempt(self, message: Message) -> Outcome:
        """Make one attempt, while the lease lasts; raises Lost, and Terminated without a secret."""
        self._left -= 1
        if time.monotonic() > self._renewed_at + RENEW_AFTER:
            await _in_thread(self._move, self.row.position)
        row = self.row
        try:
            keys = row.secrets()
        except ValueError as error:  # After a change of SECRET_KEY: nothing can be signed.
            if row.status == Status.ENDING:
                return Outcome(False, is_final=True)
            raise recipients.Terminated(Forbidden(recipients.REVOKED)) from error
        return await webhook_requests.send_in_thread(row.url, keys, row.pk, message)

    # Rows.

    def _own(self) -> QuerySet[Subscription]:
        """Return the subscription as long as nobody else has changed it: rule 2."""
        row = self.row
        return (
            Subscription.objects.current()
            .unexpired()
            .filter(
                pk=row.pk, lease_owner=self._lease_owner, status=row.status, position=row.position
            )
        )

    def _update(self, **changes: Any) -> None:
        """Change the subscription, and renew the lease; raises Lost."""
        began_at = time.monotonic()
        if not self._own().update(**{"lease_until": database_clock.after(LEASE), **changes}):
            raise Lost
        self._renewed_at = began_at

    def _move(self, position: int) -> None:
        """Move behind occurrences that the receiver may not see, or renew the lease alone."""
        if position > self.row.position:
            self._update(position=position, attempts=0)
            self.row.position = position
            self.row.attempts = 0
        else:
            self._update()

    def _record(self, outcome: Outcome, position: int, occurrence: Occurrence | None) -> bool:
        """Store the outcome of an attempt; return whether it is repeated later."""
        row = self.row
        attempts = row.attempts + (outcome.is_accepted or outcome.error != "")
        delay = None if outcome.is_accepted else _delay(outcome, attempts)
        changes: dict[str, Any] = _described(outcome)
        if delay is None:
            changes |= {"position": position, "attempts": 0, "next_attempt_at": None}
            changes |= self._end_of_message(outcome)
        else:
            until = database_clock.after(timedelta(seconds=delay))
            changes |= {"attempts": attempts, "next_attempt_at": until}
            changes |= {"lease_owner": "", "lease_until": None}
        with transaction.atomic(using=_alias()):
            if occurrence is not None:
                self._store_delivery(occurrence, outcome, attempts, delay)
            self._update(**changes)
        row.position = changes.get("position", row.position)
        row.attempts = changes["attempts"]
        row.status = changes.get("status", row.status)
        if outcome.is_accepted:
            row.failed_since = None
        return delay is not None

    def _end_of_message(self, outcome: Outcome) -> dict[str, Any]:
        """Return the next status: ended after its last message, or suspended after failures."""
        row = self.row
        if row.status == Status.ENDING:
            return {"status": Status.ENDED}
        since = None if outcome.is_accepted else row.failed_since
        if since is not None and timezone.now() - since > SUSPEND_AFTER:
            return {"status": Status.SUSPENDED}
        return {}

    def _store_delivery(
        self, occurrence: Occurrence, outcome: Outcome, attempts: int, delay: float | None
    ) -> None:
        values = _delivery_values(outcome, attempts, delay)
        rows = Delivery._default_manager.using(_alias())
        if not rows.filter(subscription=self.row, occurrence=occurrence).update(**values):
            rows.create(
                subscription=self.row,
                occurrence=occurrence,
                event_id=occurrence.event_id,
                created_at=Now(),
                **values,
            )

    def _record_repeated(self, delivery: Delivery, outcome: Outcome) -> None:
        attempts = delivery.attempts + (outcome.is_accepted or outcome.error != "")
        delay = None if outcome.is_accepted else _delay(outcome, attempts)
        with transaction.atomic(using=_alias()):
            rows = Delivery._default_manager.using(_alias()).filter(pk=delivery.pk)
            rows.update(**_delivery_values(outcome, attempts, delay))
            self._update(**_described(outcome))

    def _release(self, rest: timedelta | None = None) -> None:
        """Give the lease back; the others have their turn before the next one of this one."""
        until = database_clock.after(rest) if rest is not None else Now()
        rows = Subscription.objects.current().filter(pk=self.row.pk, lease_owner=self._lease_owner)
        rows.update(lease_owner="", lease_until=None, next_attempt_at=until)

    def _terminate(self, error: dict[str, Any]) -> None:
        if self._own().exists():
            self.row.terminate(error)
        self._release()


def _position(occurrence: Occurrence) -> int:
    assert occurrence.position is not None
    return occurrence.position


def _delay(outcome: Outcome, attempts: int) -> float | None:
    """Return the seconds until the next attempt, or None if there is none."""
    if outcome.is_final or attempts > len(BACKOFF):
        return None
    wait = BACKOFF[attempts - 1] * random.uniform(0.8, 1.2)
    return max(wait, min(outcome.retry_after, MAX_WAIT))


def _described(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of a subscription for the last attempt."""
    if outcome.is_accepted:
        return {"last_delivery_at": Now(), "last_error": "", "failed_since": None}
    if outcome.error == "":  # Nothing was attempted.
        return {}
    return {"last_error": outcome.error, "failed_since": Coalesce(F("failed_since"), Now())}


def _delivery_values(outcome: Outcome, attempts: int, delay: float | None) -> dict[str, Any]:
    values = {"attempts": attempts, "last_error": outcome.error}
    if delay is not None:
        until = database_clock.after(timedelta(seconds=delay))
        return {**values, "status": DeliveryStatus.PENDING, "next_attempt_at": until}
    is_accepted = outcome.is_accepted
    status = DeliveryStatus.DELIVERED if is_accepted else DeliveryStatus.ABANDONED
    return {**values, "status": status, "next_attempt_at": None, "ended_at": Now()}


def redeliver(rows: QuerySet[Delivery]) -> int:
    """Send deliveries of an administrator's choice again; return how many there are.

    They are left out if their subscription is over, or their occurrence deleted.
    """
    live = Subscription.objects.current().live()
    chosen = rows.using(_alias()).exclude(status=DeliveryStatus.PENDING).exclude(occurrence=None)
    keys = [*chosen.filter(subscription__in=live).values_list("pk", flat=True)]
    count = (
        Delivery._default_manager.using(_alias())
        .filter(pk__in=keys)
        .update(status=DeliveryStatus.PENDING, attempts=0, next_attempt_at=Now(), ended_at=None)
    )
    transaction.on_commit(wake, using=_alias(), robust=True)
    return count


# Running.


class Deliverer:
    """Delivers from one event loop, until nothing is due."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._is_running = False
        self._has_failed = False
        self._is_submitting = False
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Deliver due occurrences. If this runs already, look again for further subscriptions."""
        self._woken.set()
        if self._is_running:
            return
        self._is_running = True
        turns: dict[asyncio.Task[None], Subscription] = {}
        try:
            await self._run(turns)
        except Exception:
            # Requests go on in threads: turns store the outcomes of those, and begin no others.
            self._has_failed = True
            if turns:
                await asyncio.wait(turns)
            raise
        finally:
            self._has_failed = False
            self._is_running = False
            for turn in turns:
                turn.cancel()

    async def _run(self, turns: dict[asyncio.Task[None], Subscription]) -> None:
        is_idle = False
        while turns or not is_idle:
            self._woken.clear()
            is_idle = True
            free = CONCURRENCY - len(turns)
            if free and not self.is_stopping:
                for row in await _in_thread(claim, free, list(turns.values())):
                    turns[background.create_task(Turn(row, self._is_over).run())] = row
            if turns:
                waking = asyncio.ensure_future(self._woken.wait())
                done, _ = await asyncio.wait({*turns, waking}, return_when="FIRST_COMPLETED")
                waking.cancel()
                for turn in [turn for turn in turns if turn in done]:
                    del turns[turn]
                await asyncio.sleep(PAUSE)
                is_idle = False
            elif self._woken.is_set() and not self.is_stopping:
                is_idle = False

    def _is_over(self) -> bool:
        return self.is_stopping or self._has_failed

    def submit_soon(self) -> None:
        """Submit the job to the runner of the site, once for many wake-ups."""
        if self._is_submitting or self.is_stopping:
            return
        self._is_submitting = True
        pause = PAUSE if runners.get().runs_here else SUBMIT_AFTER
        asyncio.get_running_loop().call_later(pause, self._submit)

    def _submit(self) -> None:
        self._is_submitting = False
        background.spawn(submit())


async def submit() -> None:
    """Submit deliveries to the runner of the site; refused ones are submitted again in time."""
    try:
        await runners.get().submit(JOB)
    except Exception:
        text = "The runner of tasks does not take the delivery of events"
        log_repeated(logging.WARNING, text, exc_info=True)


async def run() -> None:
    """Deliver on the running event loop until nothing is due: the job of the runner."""
    with suppress(*AWAY):
        await loops.here(Deliverer).run()


def wake() -> None:
    """Deliver committed occurrences soon. It may be called on any thread, and returns at once.

    A process that serves no MCP endpoint does nothing: those that do look every POLL seconds.
    """
    for loop, deliverer in loops.everywhere(Deliverer):
        with suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(deliverer.submit_soon)


async def _look() -> None:
    """Submit the job if there is something to send, also after a time of BACKOFF."""
    try:
        if loops.here(Deliverer).is_stopping or not await _in_thread(has_work):
            return
        # A message to a broker is for all workers.
        if runners.get().runs_here or await housekeeping.CLAIM.get()(JOB, POLL):
            await submit()
    except Exception:
        log_repeated(logging.WARNING, "Events cannot be delivered now", exc_info=True)


_timer = LoopTimer(
    _look, pause=lambda: POLL * random.uniform(0.5, 1.0), context=pools.context_of_nobody
)


async def start() -> None:
    """Begin to look for due deliveries on the running event loop."""
    loops.here(Deliverer).is_stopping = False
    _timer.start()


async def stop() -> None:
    """Begin no further turn on the running event loop. Undelivered occurrences stay due."""
    loops.here(Deliverer).is_stopping = True


def run_command(*, once: bool) -> None:
    """Deliver in this process, until it is told to stop, or with ``once`` until nothing is due."""
    bus.run_in_temporary_loop(_deliver_in_command, once)


async def _deliver_in_command(once: bool) -> None:
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    with suppress(NotImplementedError, RuntimeError):  # Windows, and threads other than the main.
        loop.add_signal_handler(signal.SIGTERM, is_over.set)
        loop.add_signal_handler(signal.SIGINT, is_over.set)
    await switches.read()
    while not is_over.is_set():
        running = asyncio.ensure_future(run())
        waiting = asyncio.ensure_future(is_over.wait())
        await asyncio.wait({running, waiting}, return_when="FIRST_COMPLETED")
        if is_over.is_set():
            await stop()
        await running
        if once:
            waiting.cancel()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL / 3):
                await waiting
