"""From calls to rows of the table, on the thread that writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import get_user_model
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
LENGTHS = {
    field.name: field.max_length for field in Call._meta.fields if field.max_length is not None
}


def write(entries: Iterable[Entry]) -> None:
    Call.objects.bulk_create([row(entry) for entry in entries])


def row(entry: Entry) -> Call:
    began_at = datetime.fromtimestamp(entry.ended_at - entry.duration, UTC)
    client = entry.client or {}
    claims = entry.principal.claims
    token = claims.get("token_id")
    texts = {
        "principal": entry.principal.key,
        "program": entry.principal.program or claims.get("token_name"),
        "token": token,
        "server": entry.server.name,
        "component": component_of(entry.server, KINDS[entry.method], entry.target),
        "target": entry.target,
        "revision": entry.revision,
        "client_name": client.get("name"),
        "client_version": client.get("version"),
    }
    return Call(
        called_at=began_at if settings.USE_TZ else timezone.make_naive(began_at),
        day=timezone.localtime(began_at, timezone.get_default_timezone()).date(),
        user_id=_user_key(entry.user),
        kind=KINDS[entry.method],
        outcome=entry.outcome,
        is_error=entry.outcome in FAILURES,
        duration=entry.duration,
        duration_class=class_of(entry.duration),
        arguments=entry.arguments,
        **{name: _fitting(name, text) for name, text in texts.items()},
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
    return user.pk if isinstance(user, get_user_model()) else None


def _fitting(column: str, value: Any) -> str:
    """The text as the column takes it: cut, without what databases refuse."""
    if value is None:
        return ""
    if not isinstance(value, str | int):
        return f"({type(value).__name__})"
    text = str(value).replace("\0", "")[: LENGTHS[column]]
    return text.encode("utf-8", "replace").decode()
