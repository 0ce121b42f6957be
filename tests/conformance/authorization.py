"""The suite's scenarios for authorization servers, with a user who logs in and allows the access.

The suite registers no client and opens no browser: it prints the URL that a user has to visit.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx

from tests.conformance import suite
from tests.conformance.suite import Outcome, nothing
from tests.processes import ROOT, free_port
from tests.running_site import RunningSite, manage, serving

SETTINGS = "tests.conformance.site.settings"
USER, PASSWORD = "conformance", "password of the conformance site"
SECONDS = 20
PYTHON = Path(sys.executable)
NAME = re.compile(r"^  - (\S+)", re.MULTILINE)


@contextmanager
def running_site() -> Iterator[RunningSite]:
    """Run the site of the folder ``site`` with a new database and a user."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
            "EXAMPLE_DATABASE": str(Path(folder) / "db.sqlite3"),
        }
        manage(PYTHON, ROOT, environment, "migrate", "--verbosity", "0")
        account = ("--noinput", "--username", USER, "--email", "", "--verbosity", "0")
        manage(PYTHON, ROOT, environment, "createsuperuser", *account)
        with serving("tests.conformance.site.asgi:application", PYTHON, ROOT, environment) as site:
            yield site


def run(site: RunningSite) -> list[Outcome]:
    """Run all scenarios and return their outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        output = suite.run(
            *("authorization", "--url", site.url(""), "--resource", site.url("/mcp")),
            *("--client-id", _register(site, port), "--port", str(port), "--output-dir", folder),
            on_line=lambda line: _allow(line.strip()) if line.startswith(site.url("/o/")) else None,
        )
        outcomes = suite.read(Path(folder))
    found = {outcome.scenario for outcome in outcomes}
    listed = NAME.findall(suite.run("list", "--authorization"))
    return outcomes + [nothing(each, output) for each in listed if each not in found]


def _register(site: RunningSite, port: int) -> str:
    """Register the suite as a client and return its id (RFC 7591)."""
    metadata = {
        "client_name": "Conformance suite",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
        "token_endpoint_auth_method": "none",
    }
    response = httpx.post(site.url("/o/register"), json=metadata, timeout=SECONDS, trust_env=False)
    return str(response.raise_for_status().json()["client_id"])


def _allow(url: str) -> None:
    """Visit a URL as a user: log in, allow the access, and follow the redirect to the client."""
    with httpx.Client(timeout=SECONDS, trust_env=False, follow_redirects=True) as browser:
        login = browser.get(url).raise_for_status()
        consent = _submit(browser, login, username=USER, password=PASSWORD)
        _submit(browser, consent, allow="on")


def _submit(browser: httpx.Client, page: httpx.Response, **fields: str) -> httpx.Response:
    """Submit the form of a page with its hidden fields, and return the next page."""
    form = _Form()
    form.feed(page.text)
    url = page.url.join(form.action)
    headers = {"Referer": str(page.url)}
    response = browser.post(url, data=form.hidden | fields, headers=headers)
    return response.raise_for_status()


class _Form(HTMLParser):
    """The first form of a page: where it is sent to, and its hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.hidden: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = found.get("action", "")
        elif tag == "input" and found.get("type") == "hidden":
            self.hidden[found["name"]] = found.get("value", "")
