"""Five clients log in, and go on in a new process, after their access token has expired.

A mixed server lets everybody connect and needs a login for some tools; the other one for all.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import environments
from tests.clients.conftest import Command
from tests.clients.oauth import flow
from tests.clients.oauth.pages import ClientPages, client_pages
from tests.clients.saved_tokens import (
    PROGRAMS,
    check_login_and_refresh,
    expire,
    python_sdk,
    running,
)
from tests.running_site import RunningSite

pytestmark = pytest.mark.nightly

LOGIN_LINE = "/o/authorize?"


@pytest.fixture(scope="module", params=["mixed", "oauth_only"])
def site(request: pytest.FixtureRequest) -> Iterator[tuple[RunningSite, ClientPages]]:
    only = {"OAUTH_ONLY": "1"} if request.param == "oauth_only" else {}
    with client_pages() as pages, flow.site_for(pages, **only) as site:
        yield site, pages


def typescript() -> Command:
    return [environments.node(), PROGRAMS / "typescript.cjs"]


def fastmcp() -> Command:
    return [environments.python("fastmcp"), "-P", PROGRAMS / "fastmcp_client.py"]


PROGRAMS_OF_CLIENTS = {
    "Python SDK 2": python_sdk("sdk2"),
    "Python SDK 1.30": python_sdk("sdk1"),
    "TypeScript SDK": typescript,
    "fastmcp": fastmcp,
}


def call_over_stdio(command: Command, site: RunningSite, pages: ClientPages) -> tuple[str, int]:
    """Call the tool by ``mcp-remote``, which is a server over stdio and prints where to log in."""
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    tool = {"name": "my_tickets", "arguments": {}}
    with running(command, site, pages) as client:
        client.write({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        for line in client.lines():
            if LOGIN_LINE in line and "http" in line:
                client.log_in(line[line.index("http") :].strip())
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("id") == 1:
                client.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
                client.write({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tool})
            elif message.get("id") == 2:
                content = message["result"]["content"]
                return " ".join(part.get("text", "") for part in content), client.logins
        raise AssertionError("".join(client.printed))


@pytest.mark.parametrize("name", PROGRAMS_OF_CLIENTS)
def test_login_call_and_refresh_in_a_new_process(
    name: str, site: tuple[RunningSite, ClientPages], tmp_path: Path
) -> None:
    running_site, pages = site
    program = PROGRAMS_OF_CLIENTS[name]()
    saved = tmp_path / "saved"
    command: Command = [*program, running_site.url("/mcp"), saved, pages.redirect_uri]

    check_login_and_refresh(command, running_site, pages)


def test_mcp_remote_logs_in_calls_and_refreshes_in_a_new_process(
    site: tuple[RunningSite, ClientPages],
) -> None:
    running_site, pages = site
    with tempfile.TemporaryDirectory() as folder:
        program = environments.ts_modules() / ".bin" / "mcp-remote"
        own: Command = ["env", f"MCP_REMOTE_CONFIG_DIR={folder}", "BROWSER=true"]
        target = [running_site.url("/mcp"), "--allow-http"]
        command: Command = [*own, environments.node(), program.resolve(), *target]

        text, logins = call_over_stdio(command, running_site, pages)
        assert "agent" in text
        assert logins == 1

        expire(running_site)
        text, logins = call_over_stdio(command, running_site, pages)
        assert "agent" in text
        assert logins == 0
