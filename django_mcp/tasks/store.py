"""The rows of tasks: created, changed by compare-and-set, leased to a process, and pruned.

A row is committed before its caller is answered. Every change applies a function of
``core.protocol.tasks`` to the task as it is then. A row that has expired does not exist. All times
are set and compared by the clock of the database.

A task that waits for an approval, or for its start after one, has a deadline and ends with it. A
running task has a lease, which belongs to its *lease owner*: one run in one process. A lease may
end because the owner could not reach the database to renew it. So the first read after its end
stores the time of that read in ``overdue_at``. From then on, the owner has the length of another
lease to renew it:

| the lease is | in its row | who moves it there | a read of the row |
|---|---|---|---|
| valid | ``lease_until`` is not over | ``create``, ``start``, ``renew`` | changes nothing |
| ended | it is over, ``overdue_at`` is not after it | time | stores ``overdue_at`` |
| overdue | ``overdue_at`` is after it | the first read | fails the task after a lease |
| lost | the status is final | a read one lease after the first, or later | changes nothing |

``renew`` leads from ended and overdue to valid: it sets an end after the stored time. No process
decides by its own clock: one that was idle knows nothing of an outage.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    models,
    router,
    transaction,
)
from django.db.models import F, Q
from django.utils import timezone

from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.tasks import Status, Task
from django_mcp.models import PRINCIPAL_LENGTH, McpTask
from django_mcp.runtime import signing
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import STEP, StoreBusy, StoreFull, in_steps
from django_mcp.stores.retries import ConcurrentUpdate, is_conflict, retried_on_thread
from django_mcp.tasks import database_clock
from django_mcp.tasks.database_clock import Now

ID = re.compile(r"[\w-]{22,43}", re.ASCII)
"""The ids of tasks: 16 or 32 random bytes, in base64. Others are not looked up: a client may send
characters that databases refuse."""
TABLE = "task"
"""The name for the encryption of columns."""
ENCRYPTED = ("inputs", "messages", "outcome")
"""The encrypted columns, besides that of the call."""
LOST: Json = {"code": -32603, "message": "The process that ran this task has stopped"}
NOT_STARTED: Json = {
    "code": -32603,
    "message": "No worker has started this task in time. Nothing was done.",
}
EXPIRED = (
    "Nobody has approved this call of {tool} in time. Nothing was done. Ask the user whether to "
    "call it again."
)
START_LIMIT = timedelta(minutes=15)
"""Time for a worker to start a task. By then the message is lost: a worker died just after it
received it, or the broker was flushed."""
START_TIME = timedelta(seconds=10)
"""Time until an approved task that has not started is submitted again: its message may be lost, or
the process of the decision may have died."""
LEASE = 9.0
"""Seconds until a lease ends that its process does not renew. A third of it passes between two
renewals, so that one may fail. The task fails after the same time again: a user may wait for it."""
MAX_TASKS_PER_CALLER = 1000
"""Tasks of one caller that are not deleted yet: more than a program needs, and a bound for one that
starts tasks without end."""
POLL_INTERVAL = 1.0
"""Seconds between two requests for the status of a task, as clients are advised."""
ACTIVE = sorted(map(str, tasks.ACTIVE))
WORKING = str(Status.WORKING)
ATTEMPTS = 50
"""Attempts of a change on the thread of a page, in case of conflicts."""
UNAVAILABLE = (OperationalError, InterfaceError, StoreUnavailable)
"""Errors while the database is away."""
TIMES = ("created_at", "updated_at", "expires_at", "started_at", "lease_until")
"""The columns that the clock of the database sets in a new row."""

Apply = Callable[[Task], Task]
NOTHING: Mapping[str, Any] = MappingProxyType({})
ANY = Q()
"""The condition of all rows."""


class NewTask(NamedTuple):
    """The columns of a new task."""

    server: str
    tool: str
    version: str
    principal: str
    user_key: str
    owner: str
    caller: str
    call: Json
    ttl_ms: int
    open_key: str | None = None


class ApprovalRequest(NamedTuple):
    """Further columns of a task that waits for an approval."""

    task_id: str
    model: type[McpTask]
    """The subclass of McpTask with the columns for approvers."""
    columns: Mapping[str, Any]
    lifetime: timedelta
    """The time in which somebody has to decide."""
    limit: int
    """The number of tasks of one caller that may wait."""


class Changed(NamedTuple):
    """A task before and after a change."""

    before: Task
    after: Task


class TaskStore:
    """The tasks in the database that Django's routers choose."""

    def __init__(self, *, lease: float, limit: int, poll_interval: float) -> None:
        self.lease = timedelta(seconds=lease)
        self._limit = limit
        self._poll_interval_ms = max(1, round(poll_interval * 1000))

    @retried_on_thread
    def create(self, new: NewTask, *, lease_owner: str | None, is_started: bool) -> Task:
        """Store a new task; raises StoreFull if its caller has too many.

        With a ``lease_owner`` it is leased at once, to a process that runs it itself.
        """
        if self._rows().filter(caller=new.caller).count() >= self._limit:
            raise StoreFull("The caller has too many tasks")
        task_id = secrets.token_urlsafe(32)
        row = McpTask(
            id=task_id,
            call=signing.encrypt(TABLE, task_id, "call", new.call),
            status=str(Status.WORKING),
            started_at=Now() if is_started else None,
            lease_owner=lease_owner if lease_owner is not None and is_started else "",
            lease_until=database_clock.after(START_LIMIT if lease_owner is None else self.lease),
            **_new_columns(new),
        )
        self._insert(row)
        return self._task(row)

    @retried_on_thread
    def create_waiting(self, new: NewTask, request: ApprovalRequest) -> tuple[str, bool]:
        """Store a task that waits for an approval; return its id, and whether it is new.

        The same call is not stored twice while it is active. Raises StoreFull.
        """
        if (present := self._active_twin(new)) is not None:
            return present, False
        waiting = self._rows().filter(
            caller=new.caller, status=Status.WAITING, lease_until__gt=Now()
        )
        if waiting.count() >= request.limit:
            raise StoreFull("Too many calls of the caller wait for approval")
        row = request.model(
            id=request.task_id,
            status=str(Status.WAITING),
            needs_approval=True,
            lease_until=database_clock.after(request.lifetime),
            **_new_columns(new),
            **request.columns,
        )
        try:
            with transaction.atomic(using=self._alias):
                self._insert(row)
                call = {**new.call, "deadline": database_clock.timestamp(row.lease_until)}
                row.call = signing.encrypt(TABLE, request.task_id, "call", call)
                row.save(using=self._alias, update_fields=["call"])
        except IntegrityError:
            # The same call came twice at the same time.
            if (present := self._active_twin(new)) is None:
                raise
            return present, False
        return request.task_id, True

    def _active_twin(self, new: NewTask) -> str | None:
        """Return the id of the active task of the same call, if there is one."""
        row = self._every().filter(open_key=new.open_key).first()
        return None if row is None or self._settle(row) else row.id

    def _insert(self, row: McpTask) -> None:
        row.save(force_insert=True, using=self._alias)
        row.refresh_from_db(using=self._alias, fields=TIMES)

    @retried_on_thread
    def start(self, task_id: str, lease_owner: str) -> tuple[McpTask, Task] | None:
        """Lease a task that nobody has started; None for any other, so that it runs once.

        The same owner may try again if the answer of the database was lost.
        """
        in_time = Q(needs_approval=False) | Q(lease_until__gt=Now())
        startable = self._rows().filter(in_time, pk=task_id, started_at=None, status=WORKING)
        startable.update(
            lease_owner=lease_owner, lease_until=database_clock.after(self.lease), started_at=Now()
        )
        leased = self._rows().filter(pk=task_id, lease_owner=lease_owner, status__in=ACTIVE)
        row = leased.filter(lease_until__gt=Now()).first()
        return None if row is None else (row, self._task(row))

    @retried_on_thread
    def renew(self, task_id: str, lease_owner: str) -> Task | None:
        """Extend the lease; None if it is lost, or the task is gone."""
        leased = self._rows().filter(pk=task_id, lease_owner=lease_owner)
        # The lease of an ended task means nothing.
        leased.filter(status__in=ACTIVE).update(lease_until=database_clock.after(self.lease))
        row = leased.first()
        return None if row is None else self._task(row)

    @retried_on_thread
    def load_leased(self, task_id: str, lease_owner: str) -> Task | None:
        """Return the task if ``lease_owner`` still leases it."""
        row = self._rows().filter(pk=task_id, lease_owner=lease_owner).first()
        return None if row is None else self._task(row)

    @retried_on_thread
    def load(self, task_id: str, owner: str) -> Task | None:
        """Return the task of this owner, after ``_settle``."""
        row = self._rows().filter(pk=task_id, owner=owner).first()
        return None if row is None else self._present(row)

    @retried_on_thread
    def change(
        self,
        task_id: str,
        apply: Apply,
        *,
        owner: str | None = None,
        lease_owner: str | None = None,
    ) -> Changed | None:
        """Apply a change; None if the task is gone, has another owner, or the lease is lost.

        Raises what ``apply`` raises, such as TaskEnded.
        """
        rows = self._rows().filter(pk=task_id)
        if owner is not None:
            rows = rows.filter(owner=owner)
        if lease_owner is not None:
            rows = rows.filter(lease_owner=lease_owner)
        if (row := rows.first()) is None:
            return None
        if lease_owner is None and self._settle(row):
            raise ConcurrentUpdate
        return self._apply(row, apply)

    def change_here(
        self,
        task_id: str,
        apply: Apply,
        columns: Mapping[str, Any] = NOTHING,
        *,
        follow: Callable[[], object] | None = None,
    ) -> Changed | None:
        """``change`` on this thread, with columns that a task value lacks.

        ``follow`` writes more in the same transaction. Each attempt has one of its own: with
        repeatable reads, the same transaction would read the same row again and again.
        """
        for _ in range(ATTEMPTS):
            try:
                with transaction.atomic(using=self._alias):
                    row = self._find(task_id)
                    if row is None:
                        return None
                    if self._settle(row) is None:
                        changed = self._apply(row, apply, columns)
                        if follow is not None:
                            follow()
                        return changed
            except (ConcurrentUpdate, OperationalError) as error:
                if not is_conflict(error):
                    raise
        raise StoreBusy

    def settle_here(self, task_ids: Iterable[str]) -> None:
        """``_settle`` these tasks, on this thread."""
        for row in self._every().filter(pk__in=list(task_ids)[:STEP]):
            try:
                with transaction.atomic(using=self._alias):
                    self._settle(row)
            except (ConcurrentUpdate, OperationalError) as error:
                if not is_conflict(error):  # Another process has ended it.
                    raise

    @retried_on_thread
    def tools(self, owner: str) -> list[str]:
        """Return the names of the tools in the owner's tasks."""
        rows = self._rows().filter(owner=owner).order_by("tool")
        return list(rows.values_list("tool", flat=True).distinct())

    @retried_on_thread
    def page(
        self, owner: str, tools: Collection[str], after: Sequence[str] | None, limit: int
    ) -> tuple[list[Task], Sequence[str] | None]:
        """Return the owner's tasks of these tools after a sort key, the oldest first, and the sort
        key of the last one where there are more."""
        rows = self._rows().filter(owner=owner, tool__in=tools).order_by("created_at", "id")
        if after is not None:
            rows = rows.filter(_after(after))
        page = list(rows[: limit + 1])
        shown = [self._listed(row) for row in page]
        if len(page) <= limit:
            return shown, None
        last = page[limit - 1]
        return shown[:limit], (last.created_at.isoformat(), last.id)

    @retried_on_thread
    def row(self, task_id: str) -> McpTask | None:
        return self._find(task_id)

    def own_row_here(self, task_id: str, user_key: str) -> McpTask | None:
        """Return on this thread the row of a call of this user."""
        if not ID.fullmatch(task_id):
            return None
        return self._rows().filter(pk=task_id, user_key=user_key).first()

    @retried_on_thread
    def unstarted(self) -> list[tuple[str, float]]:
        """Return the ids of tasks that were approved, and should have started already.

        Each has the seconds since its approval.
        """
        approved = self._rows().filter(needs_approval=True, status=WORKING, started_at=None)
        late = approved.filter(
            lease_until__gt=Now(), updated_at__lt=database_clock.after(-START_TIME)
        )
        rows = late.order_by("updated_at").only("updated_at")[:STEP]
        return [(row.id, (row.read_at - row.updated_at).total_seconds()) for row in rows]

    @retried_on_thread
    def delete(self, task_id: str) -> None:
        self._rows().filter(pk=task_id).delete()

    async def prune(self, *, pause: float = 0.0) -> int:
        """Delete expired tasks in steps, and settle the others.

        The app of approvals keeps tasks with an approval longer, and deletes them.
        """
        deleted = await in_steps(self._delete_some, pause)
        await self._settle_some()
        return deleted

    @retried_on_thread
    def _delete_some(self) -> int:
        expired = self._every().filter(expires_at__lte=Now(), needs_approval=False)
        names = list(expired.values_list("pk", flat=True)[:STEP])
        return expired.filter(pk__in=names).delete()[0] if names else 0

    @retried_on_thread
    def _settle_some(self) -> None:
        for row in self._every().filter(status__in=ACTIVE, lease_until__lt=Now())[:STEP]:
            self._settle(row)

    @property
    def _alias(self) -> str:
        return router.db_for_write(McpTask)

    def _rows(self) -> models.QuerySet[McpTask]:
        return live(self._every())

    def _every(self) -> models.QuerySet[McpTask]:
        return McpTask._default_manager.using(self._alias).annotate(read_at=Now())  # type: ignore[no-redef]

    def _find(self, task_id: str) -> McpTask | None:
        return self._rows().filter(pk=task_id).first()

    def _present(self, row: McpTask) -> Task:
        """Return the task, after ``_settle``."""
        return self._settle(row) or self._task(row)

    def _listed(self, row: McpTask) -> Task:
        """``_present``; without its texts and its result if they cannot be decrypted."""
        try:
            return self._present(row)
        except ValueError:
            _empty(row, ENCRYPTED)
            return self._task(row)

    def _settle(self, row: McpTask) -> Task | None:
        """End a task that is past its deadline, or has lost its lease; None for any other.

        The first time that a lease is found to have ended, that is stored instead.
        """
        if row.status not in ACTIVE or row.lease_until is None or row.lease_until >= row.read_at:
            return None
        # A start and a renewal leave the update count as it is.
        is_over = Q(lease_until__lt=Now())
        if row.needs_approval and row.started_at is None:
            is_over &= Q(started_at=None)
        else:
            if row.overdue_at is None or row.overdue_at < row.lease_until:
                is_new = Q(overdue_at=None) | Q(overdue_at__lt=F("lease_until"))
                ended = Q(status__in=ACTIVE, lease_until__lt=Now())
                self._every().filter(is_new, ended, pk=row.pk).update(overdue_at=Now())
                return None
            if row.read_at - row.overdue_at < self.lease:
                return None
            is_over &= Q(
                overdue_at__gte=F("lease_until"), overdue_at__lte=database_clock.after(-self.lease)
            )
        if row.status == Status.WAITING:
            end = partial(tasks.expire, text=EXPIRED.format(tool=row.tool))
        else:
            is_started = row.started_at is not None or bool(row.lease_owner)
            end = partial(tasks.fail, error=LOST if is_started else NOT_STARTED)
        # The end needs neither, and the row can be read again after it.
        columns = {"lease_owner": "", **_empty(row, ("inputs", "messages"))}
        return self._apply(row, end, columns, only=is_over).after

    def _apply(
        self, row: McpTask, apply: Apply, others: Mapping[str, Any] = NOTHING, *, only: Q = ANY
    ) -> Changed:
        """Write a change of the task, and ``others`` with it.

        Raises ConcurrentUpdate if the row has changed, or is none of ``only`` any more.
        """
        before = self._task(row)
        after = apply(before)
        if after is before:
            return Changed(before, after)
        columns = {**_changed_columns(row.id, before, after), **others}
        if after.is_final and not before.is_final:
            columns["ended_at"] = Now()
            columns["open_key"] = None
        unchanged = self._every().filter(only, pk=row.pk, update_count=row.update_count)
        columns |= {"updated_at": Now(), "update_count": F("update_count") + 1}
        if not unchanged.update(**columns):
            raise ConcurrentUpdate
        return Changed(before, replace(after, updated_at=_rfc3339(row.read_at)))

    def _task(self, row: McpTask) -> Task:
        outcome = _decrypted(row, "outcome", {})
        lifetime = row.expires_at - row.created_at
        return Task(
            id=row.id,
            tool=row.tool,
            status=Status(row.status),
            created_at=_rfc3339(row.created_at),
            updated_at=_rfc3339(row.updated_at),
            ttl_ms=round(lifetime.total_seconds() * 1000),
            poll_interval_ms=self._poll_interval_ms,
            message=row.status_message,
            progress=row.progress,
            total=row.total,
            receiver=row.receiver,
            inputs=_decrypted(row, "inputs", {}),
            messages=tuple(_decrypted(row, "messages", ())),
            result=outcome.get("result"),
            error=outcome.get("error"),
        )


def _new_columns(new: NewTask) -> dict[str, Any]:
    """The columns of a new row that do not depend on its status."""
    columns = new._asdict()
    del columns["call"]
    lifetime = timedelta(milliseconds=columns.pop("ttl_ms"))
    columns["principal"] = new.principal[:PRINCIPAL_LENGTH]
    times = {"created_at": Now(), "updated_at": Now(), "expires_at": database_clock.after(lifetime)}
    return {**columns, **times}


def live(rows: models.QuerySet[McpTask]) -> models.QuerySet[McpTask]:
    """The rows that have not expired."""
    return rows.filter(expires_at__gt=Now())


def call_of(row: McpTask) -> dict[str, Any]:
    """The stored call of the row; raises ValueError if it cannot be decrypted."""
    call: dict[str, Any] = signing.decrypt(TABLE, row.id, "call", row.call)
    return call


def inputs_of(row: McpTask) -> dict[str, Any]:
    """The input requests of the row, by key; see ``Task.inputs``."""
    inputs: dict[str, Any] = _decrypted(row, "inputs", {})
    return inputs


def outcome_of(row: McpTask) -> dict[str, Any]:
    """The ``result`` or the ``error`` of the row; empty before it has one."""
    outcome: dict[str, Any] = _decrypted(row, "outcome", {})
    return outcome


def _empty(row: McpTask, names: Iterable[str]) -> dict[str, str]:
    """Empty the columns that cannot be decrypted, and return them: SECRET_KEY was changed."""
    columns: dict[str, str] = {}
    for column in names:
        try:
            _decrypted(row, column, None)
        except ValueError:
            setattr(row, column, "")
            columns[column] = ""
    return columns


def _decrypted(row: McpTask, column: str, default: Any) -> Any:
    stored = getattr(row, column)
    return signing.decrypt(TABLE, row.id, column, stored) if stored else default


def _changed_columns(task_id: str, before: Task, after: Task) -> dict[str, Any]:
    """The columns that a change affects; only these are encrypted again."""
    columns: dict[str, Any] = {
        column: getattr(after, name)
        for name, column in PLAIN.items()
        if getattr(after, name) != getattr(before, name)
    }
    encrypted: dict[str, Any] = {}
    if after.inputs != before.inputs:
        encrypted["inputs"] = after.inputs
    if after.messages != before.messages:
        encrypted["messages"] = after.messages
    if after.result is not None or after.error is not None:
        has_result = after.result is not None
        encrypted["outcome"] = {"result": after.result} if has_result else {"error": after.error}
    for name, value in encrypted.items():
        columns[name] = signing.encrypt(TABLE, task_id, name, value) if value else ""
    return columns


PLAIN = {
    "status": "status",
    "message": "status_message",
    "progress": "progress",
    "total": "total",
    "receiver": "receiver",
}
"""Members of a task and their columns, which are not encrypted."""


def _after(key: Sequence[str]) -> Q:
    """The rows after a sort key; none for one that no page has returned."""
    try:
        created_at = datetime.fromisoformat(key[0])
        task_id = key[1]
    except (ValueError, IndexError):
        return Q(pk=None)
    return Q(created_at__gt=created_at) | Q(created_at=created_at, id__gt=task_id)


def _rfc3339(moment: datetime) -> str:
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment)
    text = aware.astimezone(timezone.get_fixed_timezone(0)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


async def prune(pause: float = 0.0) -> int:
    """Delete expired tasks, with pauses between steps; return their number."""
    return await get().prune(pause=pause)


def get() -> TaskStore:
    """The tasks of this site."""
    return TaskStore(lease=LEASE, limit=MAX_TASKS_PER_CALLER, poll_interval=POLL_INTERVAL)
