"""Real clients against the example site under WSGI servers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.clients import environments
from tests.clients.conftest import KINDS, Command, connected
from tests.clients.real_client import Json, RealClient
from tests.processes import ROOT
from tests.running_site import RunningSite, running_site
from tests.waiting import SECONDS
from tests.wsgi import servers

APPLICATION = "example_site.wsgi:application"
SUBJECT = "Printer prints blank pages"
TIMEOUT = SECONDS


def gunicorn(folder: Path) -> Command:
    return ["gunicorn", *servers.BIND, "--workers", "2", APPLICATION]


def uwsgi(folder: Path) -> Command:
    return servers.uwsgi(folder, APPLICATION)


def runserver(folder: Path) -> Command:
    return ["manage", "runserver", "--noreload", "127.0.0.1:{port}"]


SERVERS: dict[str, Callable[[Path], Command]] = {
    "gunicorn": gunicorn,
    "uWSGI": uwsgi,
    "runserver": runserver,
}
SDKS = ("python_2_http", "python_2_legacy_http", "python_1_http", "typescript_http")
IN_PUSH_RUN = ("gunicorn", "python_2_http")
PAIRS = [
    pytest.param(*pair, marks=() if pair == IN_PUSH_RUN else pytest.mark.nightly)
    for pair in product(SERVERS, SDKS)
]


@pytest.fixture(scope="module")
def wsgi_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningSite]:
    """The example site under a WSGI server."""
    command = SERVERS[request.param](tmp_path_factory.mktemp("server"))
    module = "tests.clients.plain_settings"
    with running_site(command, demo_data=True, DJANGO_SETTINGS_MODULE=module) as site:
        yield site
        logged = site.log
    assert "Traceback" not in logged, logged


@pytest.mark.parametrize(("wsgi_site", "sdk"), PAIRS, indirect=["wsgi_site"])
def test_official_sdk_calls_reports_progress_and_asks(wsgi_site: RunningSite, sdk: str) -> None:
    kind = KINDS[sdk]
    with connected(kind, wsgi_site) as client:
        assert client.connected["connected"] == kind.version
        assert SUBJECT in str(client.call("search_tickets", text="printer"))
        assert answer_of_the_user(client)
        assert "7" in str(client.request("resources/read", uri="ticket://7"))
    with connected(kind, wsgi_site, "conformance") as client:
        lines = client.conversation("tools/call", name="test_tool_with_progress", arguments={})
        assert [line.get("notification") for line in lines[:-1]]


def answer_of_the_user(client: RealClient) -> Any:
    """Answer an input request of a call; return what the call has made of it."""
    ticket: Json = {"customer": "School", "subject": "No heating", "description": "It is cold."}
    call = client.start("tools/call", name="open_ticket", arguments=ticket)
    request = client.next_request()
    schools = request["params"]["requestedSchema"]["properties"]["customer"]["enum"]
    client.answer(request, {"action": "accept", "content": {"customer": schools[0]}})
    return client.until_done(call)[-1]["result"]["structuredContent"]["customer"]


@pytest.mark.nightly
@pytest.mark.parametrize("wsgi_site", SERVERS, indirect=True)
def test_fastmcp_lists_and_calls_tools(wsgi_site: RunningSite) -> None:
    program = ROOT / "tests" / "clients" / "frameworks" / "fastmcp.py"
    url = wsgi_site.url("/mcp")
    printed = json.loads(output([environments.python("fastmcp"), "-P", program, url]))
    assert "search_tickets" in printed["tools"]
    assert all(SUBJECT in result for result in printed["results"])


@pytest.mark.nightly
@pytest.mark.parametrize("wsgi_site", SERVERS, indirect=True)
def test_inspector_lists_and_calls_tools(wsgi_site: RunningSite) -> None:
    modules = environments.made("inspector") / "node_modules"
    program: Command = [modules / ".bin" / "node", modules / ".bin" / "mcp-inspector", "--cli"]
    target: Command = [wsgi_site.url("/mcp"), "--transport", "http"]
    command = [*program, *target, "--method"]
    assert "search_tickets" in output([*command, "tools/list"])
    call: Command = ["tools/call", "--tool-name", "search_tickets", "--tool-arg", "text=printer"]
    assert SUBJECT in output([*command, *call])


def output(command: Command) -> str:
    """What a program prints that succeeds."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
