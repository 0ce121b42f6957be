"""The small projects of the guides for who comes from another package: laid out, served, called.

``base`` is what all have. ``<package>/before`` is the project with the other package, and
``<package>/after`` the same with django_mcp, which ``mounted`` configures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.http_client import connect
from tests.running_site import manage, serving_by
from tests.wire.live import SyncLiveClient

HERE = Path(__file__).resolve().parent
CREATE_TABLES = """
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("loaddata", "products", verbosity=0)
"""
VERSION = "2025-06-18"
"""The newest revision that all packages serve with sessions or without."""


@contextmanager
def served(
    folder: Path, overlays: Sequence[str], python: Path, command: Sequence[str]
) -> Iterator[int]:
    """Serve a project that is made of folders; the value is its port."""
    environment = lay_out(folder, overlays, python)
    with serving_by(command, python, folder, environment) as site:
        yield site.port


def lay_out(folder: Path, overlays: Sequence[str], python: Path) -> Mapping[str, str]:
    """Copy a project and create its tables; return the environment of its processes."""
    for overlay in ("base", *overlays):
        if (HERE / overlay).exists():
            shutil.copytree(HERE / overlay, folder, dirs_exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    manage(python, folder, environment, "shell", "--verbosity", "0", "--command", CREATE_TABLES)
    return environment


def printed(python: Path, folder: Path, *arguments: str) -> str:
    """The last word that a management command of a project prints, such as a token."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    command: list[str | Path] = [python, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return str(done.stdout.split()[-1])


@contextmanager
def connected(port: int, path: str, token: str | None = None) -> Iterator[SyncLiveClient]:
    """A client of a revision with ``initialize``, with and without a session."""
    headers = {"mcp-protocol-version": VERSION}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with connect(port) as http:
        client = SyncLiveClient(http, path, VERSION, headers=headers)
        client.initialize()
        yield client


def tools(client: SyncLiveClient) -> list[str]:
    """The names of the tools."""
    return [tool["name"] for tool in client.result("tools/list")["tools"]]


def answers_over_stdio(
    command: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    name: str,
    **arguments: Any,
) -> str:
    """The text of a tool's result, of a server that a client starts."""
    params = {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "moving", "version": "1"},
    }
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for message in (
            {"id": 1, "method": "initialize", "params": params},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            if message.get("id") == 1:
                process.stdout.readline()
        lines = (json.loads(line) for line in process.stdout)
        result = next(line["result"] for line in lines if line.get("id") == 2)
        return "\n".join(block["text"] for block in result["content"])
    finally:
        process.kill()
        process.communicate()
