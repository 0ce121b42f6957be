"""The suite's scenarios for authorization servers, with a user who logs in and allows the access.

The suite registers no client and opens no browser: it prints the URL that a user has to visit.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener, urlopen

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
    headers = {"Content-Type": "application/json"}
    request = Request(site.url("/o/register"), json.dumps(metadata).encode(), headers)
    with urlopen(request, timeout=SECONDS) as response:
        return str(json.load(response)["client_id"])


def _allow(url: str) -> None:
    """Visit a URL as a user: log in, allow the access, and follow the redirect to the client."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    login_url, page = _visit(browser, url)
    consent_url, page = _submit(browser, login_url, page, username=USER, password=PASSWORD)
    _submit(browser, consent_url, page, allow="on")


def _submit(browser: OpenerDirector, url: str, page: str, **fields: str) -> tuple[str, str]:
    """Submit the form of a page with its hidden fields, and return the next page."""
    form = _Form()
    form.feed(page)
    data = urlencode(form.hidden | fields).encode()
    return _visit(browser, Request(urljoin(url, form.action), data, {"Referer": url}))


def _visit(browser: OpenerDirector, request: str | Request) -> tuple[str, str]:
    with browser.open(request, timeout=SECONDS) as response:
        return response.url, response.read().decode()


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
