"""From calls to rows of the table, on the thread that writes.

Rows are written without instances of the model: those take four times as long, which is half of
the time of a small call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_mcp.calls.durations import class_of
from django_mcp.calls.models import FAILURES, Call
from django_mcp.components.prompt import PromptComponent
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.components.tool import ToolComponent
from django_mcp.frame.frame_server import FrameServer

if TYPE_CHECKING:
    from django_mcp.calls.recording import Entry

KINDS: Mapping[str, str] = {
    "tools/call": ToolComponent.kind,
    "resources/read": ResourceComponent.kind,
    "prompts/get": PromptComponent.kind,
}
FIELDS: Mapping[str, Any] = {field.name: field for field in Call._meta.concrete_fields}
LENGTHS = {name: field.max_length for name, field in FIELDS.items() if field.max_length is not None}


class Row(NamedTuple):
    """A row by the fields of the model, in the order of its statement."""

    called_at: datetime
    day: date
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
    outcome: str
    is_error: bool
    duration: float
    duration_class: int
    arguments: str
    arguments_size: int | None
    response_size: int | None


def write(entries: Sequence[Entry]) -> None:
    """Insert the rows of these calls, in one transaction."""
    alias = router.db_for_write(Call)
    connection = connections[alias]
    rows = [_adapted(connection, row(entry)) for entry in entries]
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
    columns = [quoted(FIELDS[name].column) for name in Row._fields]
    return template.format(
        table=quoted(Call._meta.db_table),
        columns=", ".join(columns),
        values=", ".join(["%s"] * len(columns)),
    )


def _adapted(connection: BaseDatabaseWrapper, row: Row) -> Sequence[Any]:
    """The row as the driver takes it; drivers take texts, numbers and booleans as they are."""
    adapt = connection.ops
    user = row.user
    changed: dict[str, Any] = {
        "called_at": adapt.adapt_datetimefield_value(row.called_at),
        "day": adapt.adapt_datefield_value(row.day),
        "user": None if user is None else FIELDS["user"].get_db_prep_save(user, connection),
    }
    return row._replace(**changed)


def row(entry: Entry) -> Row:
    """The row of a call."""
    began_at = datetime.fromtimestamp(entry.ended_at - entry.duration, UTC)
    client = entry.client or {}
    claims = entry.principal.claims
    kind = KINDS[entry.method]
    return Row(
        called_at=began_at if settings.USE_TZ else timezone.make_naive(began_at),
        day=began_at.astimezone(timezone.get_default_timezone()).date(),
        user=_user_key(entry.user),
        principal=_fitting("principal", entry.principal.key),
        program=_fitting("program", entry.principal.program or claims.get("token_name")),
        token=_fitting("token", claims.get("token_id")),
        server=_fitting("server", entry.server.name),
        kind=kind,
        component=_fitting("component", component_of(entry.server, kind, entry.target)),
        target=_fitting("target", entry.target),
        revision=_fitting("revision", entry.revision),
        client_name=_fitting("client_name", client.get("name")),
        client_version=_fitting("client_version", client.get("version")),
        outcome=entry.outcome,
        is_error=entry.outcome in FAILURES,
        duration=entry.duration,
        duration_class=class_of(entry.duration),
        arguments=entry.arguments,
        arguments_size=entry.arguments_size,
        response_size=entry.response_size,
    )


def component_of(server: FrameServer, kind: str, target: Any) -> str:
    """The name or URI by which the server declares what was called; "" if it does not.

    Clients choose names and URIs, of which there may be any number.
    """
    if not isinstance(target, str):
        return ""
    if server.components.find(kind, target) is not None:
        return target
    if kind == ResourceComponent.kind:
        for template in server.components.of_kind(TemplateComponent.kind):
            if isinstance(template, TemplateComponent) and template.match(target) is not None:
                return template.key
    return ""


def _user_key(user: Any) -> Any:
    """The key of a row of the user model; None for anybody else."""
    return user.pk if user is not None and isinstance(user, get_user_model()) else None


def _fitting(column: str, value: Any) -> str:
    """The text as the column takes it: cut, without what databases refuse."""
    if value is None:
        return ""
    if not isinstance(value, str | int):
        return f"({type(value).__name__})"
    text = str(value).replace("\0", "")[: LENGTHS[column]]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
