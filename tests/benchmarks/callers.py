"""Calls per second of callers who are somebody, and the connections they open.

``python -m tests.benchmarks.callers`` starts PostgreSQL and uvicorn, and calls each tool with a
session cookie and with a personal access token. It prints a table; nothing is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.processes import wait_for_connection
from tests.processes import free_port
from tests.services.instances import PostgreSQL, postgresql_server

SITE = "tests.benchmarks.callers_site"
TOOLS = ("open_tool", "guarded_tool", "query_tool")
CREDENTIALS = """
import json
from tests.benchmarks.callers_site import Group
from importlib import import_module
from django.contrib.auth import HASH_SESSION_KEY, BACKEND_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django_mcp.tokens.models import PersonalAccessToken

call_command("migrate", verbosity=0)
user = get_user_model().objects.create_user("ann", password="secret")
user.user_permissions.add(Permission.objects.get(codename="view_user"))
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
_, token = PersonalAccessToken.objects.issue(user, "measured")
cookie = f"sessionid={session.session_key}"
print(json.dumps({"Cookie": cookie, "Authorization": f"Bearer {token}"}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--max-age", type=int, default=60, help="CONN_MAX_AGE")
    given = parser.parse_args()
    with postgresql_server() as server, site(server, given.max_age) as (port, headers, name):
        print("| credentials | tool | calls/s | connections | opened after 1 s |")
        print("| --- | --- | ---: | ---: | ---: |")
        for header, value in headers.items():
            for tool in TOOLS:
                call(port, tool, f"{header}: {value}", given.callers, 1.0)
                opened = opened_so_far(server, name)
                rate = call(port, tool, f"{header}: {value}", given.callers, given.seconds)
                later = opened_so_far(server, name) - opened
                print(
                    f"| {header} | {tool} | {rate:.0f} | {server.connections(name)} | {later} |",
                    flush=True,
                )


@contextmanager
def site(server: PostgreSQL, max_age: int) -> Iterator[tuple[int, dict[str, str], str]]:
    """The port of a running site, the headers of a caller, and the name of the database."""
    name = server.create_database()
    database = server.settings(name, CONN_MAX_AGE=max_age)
    environment = {**os.environ, "CALLERS_DATABASE": json.dumps(database)}
    environment["DJANGO_SETTINGS_MODULE"] = ""
    done = subprocess.run(
        [sys.executable, "-c", CREDENTIALS], env=environment, check=True, capture_output=True
    )
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen([*command, f"{SITE}:application"], env=environment)
    try:
        wait_for_connection(port, lambda: None if process.poll() is None else "It ended")
        yield port, json.loads(done.stdout), name
    finally:
        process.terminate()
        process.wait(30)


def opened_so_far(server: PostgreSQL, name: str) -> int:
    """How many connections a database has had, but for those of this program."""
    time.sleep(1.2)  # The statistics are written with a delay.
    statement = f"SELECT sessions FROM pg_stat_database WHERE datname = '{name}'"
    return int(server.execute(statement)[0][0])


def call(port: int, tool: str, credentials: str, callers: int, seconds: float) -> float:
    """Calls of a tool per second."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "call.lua"
        script.write_text(request(port, tool, credentials))
        done = subprocess.run(
            [
                *("wrk", "-t1", f"-c{callers}", f"-d{seconds:g}s", "-s", str(script)),
                f"http://127.0.0.1:{port}/mcp",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    if "Non-2xx" in done.stdout:
        raise SystemExit(f"{tool} was refused: {done.stdout}")
    found = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    assert found is not None
    return float(found[1])


def request(port: int, tool: str, credentials: str) -> str:
    """The script of wrk for one tools/call."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    name, value = credentials.split(": ", 1)
    headers = {
        name: value,
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Origin": f"http://127.0.0.1:{port}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    lines = [f'wrk.headers["{key}"] = "{text}"' for key, text in headers.items()]
    return "\n".join(['wrk.method = "POST"', f"wrk.body = [[{body}]]", *lines])


if __name__ == "__main__":
    main()
