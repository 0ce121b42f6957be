"""The agent of the example site, whose calls wait for approval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.browser.chromium import TIMEOUT
from tests.running_site import RunningSite

META = {
    "protocolVersion": "2026-07-28",
    "clientCapabilities": {},
    "clientInfo": {"name": "Desk assistant", "version": "2.1"},
}
ISSUE = """
from django.contrib.auth.models import User
from django_mcp.contrib.tokens.models import PersonalAccessToken
agent = User.objects.get(username="agent")
issued = PersonalAccessToken.objects.issue(agent, "Desk assistant", scopes=["helpdesk"])
open({path!r}, "w").write(issued[1])
"""


def issued_token(site: RunningSite, file: Path) -> str:
    """A new token of the agent, which is also written into a file."""
    site.manage("shell", "--verbosity", "0", "--command", ISSUE.format(path=str(file)))
    return file.read_text()


def call(site: RunningSite, token: str, name: str, **arguments: Any) -> str:
    """The text of a tool's result, as the agent's program receives it."""
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in META.items()}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    response = httpx.post(
        site.url("/mcp"),
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        },
        timeout=TIMEOUT,
    )
    return str(response.json()["result"]["content"][0]["text"])
