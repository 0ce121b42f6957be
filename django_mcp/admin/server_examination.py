"""The findings of ``mcp_doctor`` about a server, for its page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.core.management.base import CommandError

from django_mcp.core.components.base import ConfigurationError
from django_mcp.management import examination
from django_mcp.management.discovery import CLIENTS, Probe
from django_mcp.management.examination import Http
from django_mcp.management.findings.base import Answer, Finding

TIMEOUT = 3.0
"""Seconds for each request of an examination."""
EXAMINE_WITHIN = 20.0
"""Seconds for all of them: somebody waits for the page."""


class Section(NamedTuple):
    """Findings below a heading."""

    heading: str
    findings: Sequence[Finding]


class BoundedHttp(Http):
    """Sends no request after ``EXAMINE_WITHIN``."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT, str)
        self._until = time.monotonic() + EXAMINE_WITHIN

    def _send_once(self, probe: Probe, url: str) -> Answer:
        if time.monotonic() > self._until:
            return Answer(0, error="not sent, because the others took too long")
        return super()._send_once(probe, url)


def examine(url: str) -> list[Section]:
    """Return the findings about a server of this project, those about the project itself first."""
    http = BoundedHttp()
    sections: Mapping[Any, Any]
    try:
        findings = {client.title: http.play(client, url) for client in CLIENTS.values()}
        sections = examination.of_project(url, http)
    except CommandError as error:
        raise ConfigurationError(str(error)) from error
    of_clients = [
        Section(examination.heading(titles, findings), shared)
        for titles, shared in examination.by_clients(findings).items()
    ]
    return [*(Section(title, of_title) for title, of_title in sections.items()), *of_clients]
