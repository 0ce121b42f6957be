"""The site of a test, to which ``mcp_doctor`` sends its requests within the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIHandler
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.management import examination
from django_mcp.management.discovery import Probe
from django_mcp.management.findings.base import Answer
from django_mcp.routing import mount
from django_mcp.testing.asgi import http_scope, perform

Change = Callable[[dict[str, Any]], dict[str, Any] | None]
"""What a proxy makes of a request: another scope, or None where it does not pass it on."""


def serve(monkeypatch: pytest.MonkeyPatch, proxy: Change = lambda scope: scope) -> None:
    """Let the doctor's requests reach the mounted servers and Django, through ``proxy``."""

    def send(http: Any, probe: Probe, url: str) -> Answer:
        parts = urlsplit(url)
        if parts.hostname != "site.example":
            return Answer(0, error="Connection refused")
        headers = {"host": parts.netloc, **dict(probe.headers)}
        scope = http_scope(
            probe.method, parts.path, query=parts.query, headers=headers, scheme=parts.scheme
        )
        changed = proxy(scope)
        if changed is None:
            return Answer(404, (("content-type", "text/html"),), b"<html>")
        reply = async_to_sync(perform)(mount(ASGIHandler()), changed, probe.body)
        received = [(name.lower(), value) for name, value in reply.headers.items()]
        return Answer(reply.status, received, reply.body)

    # The connection of a test outlives a request.
    monkeypatch.setattr(BaseDatabaseWrapper, "close_if_unusable_or_obsolete", lambda _: None)
    monkeypatch.setattr(examination.Http, "_send_once", send)
