"""Clients whose tokens are saved."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from tests.clients import environments
from tests.clients.conftest import Command
from tests.clients.oauth import flow
from tests.clients.oauth.pages import ClientPages
from tests.clients.oauth.users import HttpUser
from tests.running_site import RunningSite
from tests.waiting import SECONDS

PROGRAMS = Path(__file__).resolve().parent / "saved"
TIMEOUT = SECONDS


def python_sdk(environment: str) -> Callable[[], Command]:
    return lambda: [environments.python(environment), "-P", PROGRAMS / "python_sdk.py"]


class Process:
    """A client process: what it prints, and its user, who allows what it asks for."""

    def __init__(self, command: Command, site: RunningSite, pages: ClientPages) -> None:
        modules = {"NODE_PATH": str(environments.CLIENTS / "ts" / "node_modules")}
        self.logins = 0
        self._pages = pages
        self._lines: Queue[str | None] = Queue()
        self.process = subprocess.Popen(
            command,
            env={**site.environment, **modules},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.printed: list[str] = []

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def lines(self) -> Iterator[str]:
        while True:
            try:
                line = self._lines.get(timeout=TIMEOUT)
            except Empty:
                raise AssertionError("".join(self.printed)) from None
            if line is None:
                return
            self.printed.append(line)
            yield line

    def log_in(self, url: str) -> None:
        """Let the user allow the access; tell the client, unless it is redirected itself."""
        self.logins += 1
        redirect_uri = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        with httpx.Client(follow_redirects=True, timeout=TIMEOUT) as http:
            HttpUser(http, self._pages).submit_forms(url)
        if redirect_uri == self._pages.redirect_uri:
            self.write(self._pages.next_redirect())

    def close(self) -> None:
        self.process.kill()
        with suppress(BrokenPipeError), self.process:
            self._reader.join()

    def write(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()


@contextmanager
def running(command: Command, site: RunningSite, pages: ClientPages) -> Iterator[Process]:
    client = Process(command, site, pages)
    try:
        yield client
    finally:
        client.close()


def call(command: Command, site: RunningSite, pages: ClientPages) -> tuple[str, int]:
    """Run a program once; return what its tool said, and how often its user was asked."""
    with running(command, site, pages) as client:
        for line in client.lines():
            printed = json.loads(line) if line.startswith("{") else {}
            if "authorize" in printed:
                client.log_in(printed["authorize"])
            elif "text" in printed:
                return printed["text"], client.logins
        raise AssertionError("".join(client.printed))


def check_login_and_refresh(command: Command, site: RunningSite, pages: ClientPages) -> None:
    """Let a new client log in once, and another process refresh its expired token."""
    text, logins = call(command, site, pages)
    assert "agent" in text
    assert logins == 1

    expire(site)
    text, logins = call(command, site, pages)
    assert "agent" in text
    assert logins == 0


def expire(site: RunningSite) -> None:
    """Let the access tokens expire on the server."""
    site.manage("shell", "--verbosity", "0", "--command", flow.EXPIRE)
