"""Examining a running server as its clients do: ``mcp_doctor``, and its page in the admin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from math import inf
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urljoin
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from django.core.management.base import CommandError

from django_mcp.core.components.base import ConfigurationError
from django_mcp.management.discovery import CLIENTS, Client, Probe, discover, with_invalid_token
from django_mcp.management.findings import project
from django_mcp.management.findings.base import Answer, Finding, Level, shown, split

MAX_BODY = 256 * 1024
"""Bytes of one answer that are read."""
MAX_REDIRECTS = 3
MAX_PROBES = 100
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PAGE_TIMEOUT = 3.0
"""Seconds for each request of a page."""
EXAMINE_WITHIN = 20.0
"""Seconds for all of them: somebody waits for the page."""


class Section(NamedTuple):
    """Findings below a heading."""

    heading: str
    findings: Sequence[Finding]


def for_page(url: str) -> list[Section]:
    """Return the findings about a server of this project, those about the project itself first."""
    http = Http(PAGE_TIMEOUT, str, within=EXAMINE_WITHIN)
    try:
        findings = {client.title: http.play(client, url) for client in CLIENTS.values()}
        in_project = of_project(url, http)
    except CommandError as error:
        raise ConfigurationError(str(error)) from error
    of_clients = [
        Section(heading(titles, findings), shared)
        for titles, shared in by_clients(findings).items()
    ]
    return [*(Section(title, listed) for title, listed in in_project.items()), *of_clients]


def of_project(url: str, http: Http) -> dict[str, list[Finding]]:
    """Return the findings within this project, below a heading; {} for other servers."""
    if not project.is_own(url):
        return {}
    answer = http.answer(with_invalid_token(url))
    of_header = project.of_authorization_header(answer)
    findings = [*project.of_project(), *project.of_mount(), *of_header]
    return {f"This project ({project.settings_module()})": findings}


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.FAILURE for finding in findings)


def by_clients(findings: Mapping[str, Sequence[Finding]]) -> dict[tuple[str, ...], list[Finding]]:
    """Return the findings by the clients that have them: each is printed once."""
    titles: dict[Finding, list[str]] = {}
    for title, of_client in findings.items():
        for finding in dict.fromkeys(of_client):
            titles.setdefault(finding, []).append(title)
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding, having in titles.items():
        groups.setdefault(tuple(having), []).append(finding)
    return groups


def heading(titles: Sequence[str], findings: Mapping[str, Any]) -> str:
    """Return the names of clients, or that they are all."""
    return "All clients" if len(titles) == len(findings) > 1 else ", ".join(titles)


class Http:
    """Sends the probes of all clients, each once: many clients begin alike."""

    def __init__(self, timeout: float, show: Callable[[str], Any], *, within: float = inf) -> None:
        """``timeout`` is for each request; after ``within``, in seconds as well, none is sent."""
        self._timeout = timeout
        self._until = time.monotonic() + within
        self._show = show
        self._answers: dict[Probe, Answer] = {}
        self._opener = OpenerDirector()  # Without the handlers of files, errors and redirects.
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)

    def play(self, client: Client, url: str) -> list[Finding]:
        """Return the findings of a client's discovery."""
        playing = discover(client, url)
        try:
            probe = next(playing)
            for _ in range(MAX_PROBES):
                probe = playing.send(self.answer(probe))
        except StopIteration as stopped:
            findings: list[Finding] = stopped.value
            return findings
        raise CommandError(f"{client.title} would send more than {MAX_PROBES} requests")

    def answer(self, probe: Probe) -> Answer:
        """Return the answer; an earlier one, if the same probe was sent before."""
        if probe not in self._answers:
            answer = self._send(probe, probe.url)
            self._show(f"  {probe}: {shown(str(answer))}")
            self._answers[probe] = answer
        return self._answers[probe]

    def _send(self, probe: Probe, url: str) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            if time.monotonic() > self._until:
                return Answer(0, error="not sent, because the others took too long")
            answer = self._send_once(probe, url)
            if not probe.follows_redirects or answer.status not in REDIRECTS:
                return answer
            url = urljoin(url, answer.header("location"))
        return Answer(0, error=f"more than {MAX_REDIRECTS} redirects")

    def _send_once(self, probe: Probe, url: str) -> Answer:
        """Send a request in a thread: the timeout of a socket is for each of its reads."""
        if split(url).scheme not in ("http", "https"):
            return Answer(0, error=f"{shown(url)} is no http or https URL")
        answers = [Answer(0, error=f"timed out after {self._timeout:g} s")]

        def send() -> None:
            answers.append(self._request(probe, url))

        thread = Thread(target=send, daemon=True)
        thread.start()
        thread.join(self._timeout)
        return answers[-1]

    def _request(self, probe: Probe, url: str) -> Answer:
        data = probe.body if probe.method == "POST" else None
        try:
            request = Request(url, data, dict(probe.headers), method=probe.method)
            with self._opener.open(request, timeout=self._timeout) as response:
                headers = [(name.lower(), value) for name, value in response.headers.items()]
                return Answer(response.status, headers, _read(response))
        except (OSError, HTTPException, ValueError) as error:
            return Answer(0, error=str(getattr(error, "reason", error)) or repr(error))


def _read(response: Any) -> bytes:
    """Read a body up to its limit; the body of a stream up to its first event."""
    is_stream = response.headers.get_content_type() == "text/event-stream"
    body = b""
    while len(body) < MAX_BODY:
        part = response.read1(MAX_BODY - len(body))
        body += part
        if not part or (is_stream and b"data:" in body and body.endswith((b"\n\n", b"\r\n\r\n"))):
            break
    return body
