"""What it costs that callers are somebody, and the connections they open.

``python -m tests.benchmarks.callers`` starts PostgreSQL, the tools of a site under uvicorn, and
views with the same look-ups under gunicorn's sync worker, with one process each. It calls both in
turn, in rounds, and prints the median of the ratios. Connections are kept (CONN_MAX_AGE).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks import environments
from tests.benchmarks.contestants import SERVERS
from tests.benchmarks.processes import inherited, wait_for_connection
from tests.processes import free_port
from tests.services.instances import START, PostgreSQL, postgresql_server
from tests.waiting import wait_until

SITE = "tests.benchmarks.callers_site"
CREDENTIALS = """
import json, time
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from importlib import import_module
from tests.benchmarks.callers_site import AUDIENCE, ISSUER
from django.contrib.auth import HASH_SESSION_KEY, BACKEND_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django_mcp.contrib.tokens.models import PersonalAccessToken
from rest_framework.authtoken.models import Token

call_command("migrate", verbosity=0)
user = get_user_model().objects.create_user("ann", password="secret")
user.user_permissions.add(Permission.objects.get(codename="view_user"))
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
_, token = PersonalAccessToken.objects.issue(user, "measured")
key = ec.generate_private_key(ec.SECP256R1())
claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 86400}
signed = jwt.encode(claims, key, "ES256", headers={"typ": "at+jwt"})
print(json.dumps({
    "key": jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()),
    "headers": {
        "anonymous": [],
        "session cookie": ["Cookie", f"sessionid={session.session_key}"],
        "token of REST framework": ["Authorization", f"Token {Token.objects.create(user=user)}"],
        "personal token": ["Authorization", f"Bearer {token}"],
        "JWT": ["Authorization", f"Bearer {signed}"],
    },
}))
"""


class Target(NamedTuple):
    """What is called: a tool by callers of one kind, or a view with the same look-ups."""

    callers: str
    tool: str
    is_view: bool = False

    def __str__(self) -> str:
        return f"{'view' if self.is_view else self.tool}, {self.callers}"


class Comparison(NamedTuple):
    """Two targets, and the least ratio of their calls per second."""

    subject: Target
    beside: Target
    bar: float
    numbers: tuple[int, ...]
    """How many call at the same time."""


def _beside_view(callers: str, tool: str) -> Comparison:
    return Comparison(Target(callers, tool), Target(callers, tool, is_view=True), 1.2, (16, 64))


def _permitted(guarded: str, tool: str) -> Comparison:
    callers = "personal token"
    return Comparison(Target(callers, guarded), Target(callers, tool), 0.85, (1, 16, 64))


COMPARISONS = (
    _beside_view("session cookie", "open_tool"),
    _beside_view("session cookie", "query_tool"),
    _beside_view("token of REST framework", "open_tool"),
    _beside_view("token of REST framework", "query_tool"),
    _permitted("guarded_tool", "open_tool"),
    _permitted("guarded_query_tool", "query_tool"),
    Comparison(Target("JWT", "open_tool"), Target("anonymous", "open_tool"), 0.7, (16,)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The database, and what its processes and their callers need."""

    server: PostgreSQL
    database: str
    environment: Mapping[str, str]
    headers: Mapping[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--max-age", type=int, default=60, help="CONN_MAX_AGE")
    given = parser.parse_args()
    print("| callers | subject | calls/s | beside | calls/s | ratio | bar | connections opened |")
    print("| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |")
    with postgresql_server() as server:
        site = prepared(server, given.max_age)
        for comparison in COMPARISONS:
            for number in comparison.numbers:
                print(measured(site, comparison, number, given.rounds, given.seconds), flush=True)


def measured(site: Site, comparison: Comparison, number: int, rounds: int, seconds: float) -> str:
    """Return the row of a comparison; connections are those of the subject after one second."""
    subject, beside, bar, _ = comparison
    with serving(site, subject, number) as call_subject:
        before = opened_so_far(site)
        call_subject(seconds)
        opened = opened_so_far(site) - before
        with serving(site, beside, number) as call_beside:
            pairs = [(call_subject(seconds), call_beside(seconds)) for _ in range(rounds)]
    if not all(map(all, pairs)):
        raise SystemExit(f"{subject} or {beside} answered nothing in {seconds:g} s")
    ratio = median(rate / other for rate, other in pairs)
    rate, other = (median(rates) for rates in zip(*pairs, strict=True))
    verdict = "" if ratio >= bar else " **short**"
    return (
        f"| {number} | {subject} | {rate:,.0f} | {beside} | {other:,.0f} | {ratio:.2f} | "
        f"{bar}{verdict} | {opened} |"
    )


def prepared(server: PostgreSQL, max_age: int) -> Site:
    """Create the database, and a caller with credentials of each kind."""
    name = server.create_database()
    database = server.settings(name, CONN_MAX_AGE=max_age)
    environment = {
        **inherited(),
        "CALLERS_DATABASE": json.dumps(database),
        "DJANGO_SETTINGS_MODULE": "",
        "PYTHONPATH": str(environments.ROOT),
    }
    python = str(environments.python("site"))
    done = subprocess.run(
        [python, "-c", CREDENTIALS], env=environment, check=True, capture_output=True
    )
    credentials = json.loads(done.stdout)
    environment["CALLERS_KEY"] = credentials["key"]
    return Site(
        server=server, database=name, environment=environment, headers=credentials["headers"]
    )


@contextmanager
def serving(site: Site, target: Target, number: int) -> Iterator[partial[float]]:
    """Serve a target; yield the function that calls it for some seconds."""
    port = free_port()
    server, name = ("gunicorn-sync", "views") if target.is_view else ("uvicorn", "application")
    arguments = [part.format(application=f"{SITE}:{name}", port=port) for part in SERVERS[server]]
    command = [str(environments.python("site")), *arguments]
    environment = {**site.environment, "CALLERS_ARE": target.callers}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=environment, cwd=environments.ROOT, stdout=log, stderr=log
        )
        try:
            wait_for_connection(port, lambda: None if process.poll() is None else "It ended")
            call_target = partial(call, port, site, target, number)
            # gunicorn accepts connections before it has loaded the application.
            wait_until(lambda: call_target(1.0) > 0, seconds=START)
            yield call_target
        finally:
            process.terminate()
            process.wait(30)


def opened_so_far(site: Site) -> int:
    """How many connections the database has had, but for those of this program."""
    time.sleep(1.2)  # The statistics are written with a delay.
    statement = f"SELECT sessions FROM pg_stat_database WHERE datname = '{site.database}'"
    return int(site.server.execute(statement)[0][0])


def call(port: int, site: Site, target: Target, number: int, seconds: float) -> float:
    """Calls of a target per second."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "call.lua"
        script.write_text(request(port, target, site.headers[target.callers]))
        kind = "session" if target.callers == "session cookie" else "token"
        path = f"/{kind}/{target.tool}" if target.is_view else "/mcp"
        done = subprocess.run(
            [
                *("wrk", "-t1", f"-c{number}", f"-d{seconds:g}s", "-s", str(script)),
                f"http://127.0.0.1:{port}{path}",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    if "Non-2xx" in done.stdout:
        raise SystemExit(f"{target} was refused: {done.stdout}")
    rate = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    assert rate is not None
    return float(rate[1])


def request(port: int, target: Target, credentials: list[str]) -> str:
    """The script of wrk for one request."""
    headers = dict([credentials]) if credentials else {}
    if target.is_view:
        return "\n".join(_lines("GET", headers))
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": target.tool, "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers |= {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Origin": f"http://127.0.0.1:{port}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": target.tool,
    }
    return "\n".join([*_lines("POST", headers), f"wrk.body = [[{body}]]"])


def _lines(method: str, headers: Mapping[str, str]) -> list[str]:
    return [
        f'wrk.method = "{method}"',
        *(f'wrk.headers["{name}"] = "{text}"' for name, text in headers.items()),
    ]


if __name__ == "__main__":
    main()
