"""The call log as an extension: a row for each call that is over."""

from __future__ import annotations

from django_mcp.contrib.call_log import recording
from django_mcp.contrib.call_log.models import Call
from django_mcp.extensions import Extension


def prune() -> str:
    return f"Deleted {Call.objects.all().prune()} calls."


CALL_LOG = Extension(
    name="django-mcp/call-log",
    after_call=recording.record,
    stop=recording.write_waiting,
    prune=prune,
)
