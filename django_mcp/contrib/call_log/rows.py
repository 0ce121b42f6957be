"""From calls to rows of the table, on the thread that writes.

Rows are written without instances of the model: those take four times as long, which is half of
the time of a small call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_mcp.contrib.call_log.models import FAILURES, Call, class_of
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.server.server import Server

if TYPE_CHECKING:
    from django_mcp.contrib.call_log.recording import Entry

KINDS: Mapping[str, str] = {
    "tools/call": ToolComponent.kind,
    "resources/read": ResourceComponent.kind,
    "prompts/get": PromptComponent.kind,
}
READ_KINDS = (ResourceComponent.kind, TemplateComponent.kind)
FIELDS: Mapping[str, Any] = {field.name: field for field in Call._meta.concrete_fields}
MAX_KEPT = 1_000
"""Characters of an error, and the most that are looked at of a text: other columns are shorter."""
LENGTHS = {name: field.max_length for name, field in FIELDS.items() if field.max_length is not None}


class CommonColumns(NamedTuple):
    """The columns that calls of one caller, component and client have in common.

    They are as the driver takes them: texts, numbers and booleans as they are.
    """

    user: Any
    principal: str
    program: str
    token: str
    server: str
    kind: str
    component: str
    target: str
    revision: str
    client_name: str
    client_version: str


COLUMNS = (
    *CommonColumns._fields,
    "called_at",
    "day",
    "outcome",
    "is_error",
    "duration",
    "duration_class",
    "arguments",
    "arguments_size",
    "response_size",
    "error",
    "exception",
    "fingerprint",
)
"""The fields of the model, in the order of a row."""


def write(entries: Sequence[Entry]) -> None:
    """Insert the rows of these calls, in one transaction."""
    alias = router.db_for_write(Call)
    connection = connections[alias]
    batch = Batch(connection)
    rows = [batch.row(entry) for entry in entries]
    with transaction.atomic(using=alias, savepoint=False), connection.cursor() as cursor:
        if hasattr(cursor, "copy"):  # psycopg 3: a quarter of the time.
            with connection.wrap_database_errors, cursor.copy(_statement(connection, COPY)) as copy:
                for values in rows:
                    copy.write_row(values)
        else:
            cursor.executemany(_statement(connection, INSERT), rows)


COPY = "COPY {table} ({columns}) FROM STDIN"
INSERT = "INSERT INTO {table} ({columns}) VALUES ({values})"


def _statement(connection: BaseDatabaseWrapper, template: str) -> str:
    quoted = connection.ops.quote_name
    columns = [quoted(FIELDS[name].column) for name in COLUMNS]
    return template.format(
        table=quoted(Call._meta.db_table),
        columns=", ".join(columns),
        values=", ".join(["%s"] * len(columns)),
    )


class Batch:
    """Makes the rows of one statement, as the driver takes them.

    Most calls of a batch are those of a few callers, components and clients. What their rows have
    in common is kept for the batch, which is bounded, and during which no principal is freed.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._adapt = connection.ops
        # The time zone of naive times in the database; None if its times have a time zone. Django
        # converts an aware time as well, but needs twice as long for it.
        self._zone: tzinfo | None = timezone.get_default_timezone()
        if settings.USE_TZ:
            has_zones = connection.features.supports_timezones
            self._zone = None if has_zones else connection.timezone
        self._user_model = get_user_model()
        self._common: dict[tuple[Any, ...], CommonColumns] = {}
        self._days: dict[float, Any] = {}

    def row(self, entry: Entry) -> tuple[Any, ...]:
        """Return the row of a call, in the order of COLUMNS."""
        began = entry.ended_at - entry.duration
        time = datetime.fromtimestamp(began, self._zone or UTC)
        if self._zone is not None:
            time = time.replace(tzinfo=None)
        return (
            *self.common(entry),
            self._adapt.adapt_datetimefield_value(time),
            self._day(began),
            entry.outcome,
            entry.outcome in FAILURES,
            entry.duration,
            class_of(entry.duration),
            entry.arguments,
            entry.arguments_size,
            entry.response_size,
            _fitting_text(MAX_KEPT, entry.error[:MAX_KEPT]),
            _fitting_text(MAX_KEPT, entry.exception[0][:MAX_KEPT]),
            entry.exception[1],
        )

    def common(self, entry: Entry) -> CommonColumns:
        """Return the columns that the call has in common with others."""
        client = entry.client or {}
        key = (
            id(entry.principal),
            id(entry.user),
            entry.server,
            entry.method,
            entry.target,
            entry.component_read,
            entry.revision,
            client.get("name"),
            client.get("version"),
        )
        try:
            columns = self._common.get(key)
        except TypeError:  # The client sent a list or an object for a text.
            return self._columns(entry)
        if columns is None:
            columns = self._columns(entry)
            self._common[key] = columns
        return columns

    def _columns(self, entry: Entry) -> CommonColumns:
        caller = entry.principal
        client = entry.client or {}
        kind = KINDS[entry.method]
        user = None  # Of anybody but a row of the user model.
        if isinstance(entry.user, self._user_model):
            user = FIELDS["user"].get_db_prep_save(entry.user.pk, self._connection)
        return CommonColumns(
            user=user,
            principal=_fitting("principal", caller.key),
            program=_fitting("program", caller.program or caller.claims.get("token_name")),
            token=_fitting("token", caller.claims.get("token_id")),
            server=_fitting("server", entry.server.name),
            kind=kind,
            component=_fitting("component", component_of(entry)),
            target=_fitting("target", entry.target),
            revision=_fitting("revision", entry.revision),
            client_name=_fitting("client_name", client.get("name")),
            client_version=_fitting("client_version", client.get("version")),
        )

    def _day(self, began: float) -> Any:
        minute = began // 60
        if minute not in self._days:
            time = datetime.fromtimestamp(began, UTC)
            day = time.astimezone(timezone.get_default_timezone()).date()
            self._days[minute] = self._adapt.adapt_datefield_value(day)
        return self._days[minute]


def component_of(entry: Entry) -> str:
    """The name or URI of the called component, as the server declares it; "" without one.

    Clients choose names and URIs, and may send any number of them.
    """
    server = entry.server
    if entry.component_read is not None:
        is_declared = any(
            server.components.find(kind, entry.component_read) is not None for kind in READ_KINDS
        )
        return entry.component_read if is_declared else ""
    if not isinstance(entry.target, str):
        return ""
    kind = KINDS[entry.method]
    component = server.components.find(kind, entry.target)
    if component is not None:
        return component.key
    return _template_of(server, entry.target) if kind == ResourceComponent.kind else ""


def _template_of(server: Server, uri: str) -> str:
    """The template that a caller without access to any has asked for, most likely."""
    templates = server.components.of_kind(TemplateComponent.kind)
    matching = [
        template
        for template in templates
        if isinstance(template, TemplateComponent) and template.match(uri) is not None
    ]
    # In the order of ``dispatch.visibility``.
    first = min(matching, key=lambda template: (template.specificity, template.name), default=None)
    return "" if first is None else first.key


def _fitting(column: str, value: Any) -> str:
    """The text as the column takes it: cut, without characters that databases refuse."""
    if value is None:
        return ""
    if not isinstance(value, str | int):
        return f"({type(value).__name__})"
    return _fitting_text(LENGTHS[column], str(value)[:MAX_KEPT])


@lru_cache(maxsize=1024)
def _fitting_text(length: int, text: str) -> str:
    """The same of a text; most texts are in many rows."""
    fitting = text.replace("\0", "")[:length]
    return fitting if fitting.isascii() else fitting.encode("utf-8", "replace").decode()
