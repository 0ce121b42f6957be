"""The call log as an extension: a row for each call that is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_mcp.contrib.call_log import recording
from django_mcp.contrib.call_log.models import Call
from django_mcp.core.components.base import Component, ConfigurationError, listed
from django_mcp.core.components.tool import ToolComponent
from django_mcp.extensions import Extension, Option


def read(value: Any, where: str) -> tuple[str, ...]:
    return listed(f"log_arguments of {where}", value)


def check(names: Sequence[str], tool: Component) -> None:
    """Raise ConfigurationError for a name that is none of the arguments."""
    properties = tool.input_schema.get("properties", {}) if isinstance(tool, ToolComponent) else {}
    for name in names:
        if name not in properties:
            raise ConfigurationError(
                f"{tool.source} logs {name!r}, which is none of its arguments "
                f"({', '.join(properties) or 'it has none'})"
            )


def prune() -> str:
    return f"Deleted {Call.objects.all().prune()} calls."


CALL_LOG = Extension(
    name="django-mcp/call-log",
    options=[
        Option(
            name=recording.LOG_ARGUMENTS,
            read=read,
            check=check,
            only_on_server="arguments are logged of tools on the server only",
        )
    ],
    after_call=recording.record,
    stop=recording.QUEUE.write,
    prune=prune,
)
