"""Start and stop contestants on the core of the servers."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.benchmarks import environments, machine
from tests.benchmarks.answers import TIMEOUT, MeasurementError
from tests.benchmarks.calls import AUDIENCE, TABLE_ROWS, TOKEN, TOOLKIT_TOKEN
from tests.benchmarks.contestants import POSTGRESQL, SERVERS, SITE, Contestant
from tests.processes import free_port

PAUSE = 0.002
"""Seconds between two attempts to connect to a starting server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running contestant."""

    contestant: Contestant
    port: int
    pid: int


@contextmanager
def serving(contestant: Contestant) -> Iterator[Served]:
    """Run the contestant within the block, once it accepts connections."""
    with starting(contestant) as (served, failed):
        wait_for_connection(served.port, failed)
        yield served


@contextmanager
def starting(contestant: Contestant) -> Iterator[tuple[Served, Callable[[], str | None]]]:
    """Run the contestant within the block; the caller waits until it accepts connections.

    Also yields a function that returns the output of a server that has exited.
    """
    port = free_port()
    arguments = [
        argument.format(application=contestant.application, port=port)
        for argument in SERVERS[contestant.server]
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = subprocess.Popen(
            command(contestant, *arguments),
            cwd=contestant.checkout or environments.ROOT,
            env=environment(contestant, Path(folder)),
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        try:
            served = Served(contestant=contestant, port=port, pid=process.pid)
            yield served, lambda: None if process.poll() is None else log.read_text()
        finally:
            end(process)


def command(contestant: Contestant, *arguments: str) -> list[str]:
    """Return the command, bound to the core of the servers."""
    python = environments.python(contestant.environment)
    return machine.pinned(machine.SERVER_CORE, python, *arguments)


def environment(contestant: Contestant, folder: Path) -> dict[str, str]:
    """Return the environment variables; the response to repeat is written to `folder`."""
    answer = folder / "answer.json"
    if contestant.answer is not None:
        answer.write_bytes(contestant.answer.to_json())
    ours = {
        "PYTHONPATH": str(contestant.checkout or environments.ROOT),
        "BENCH_ANSWER": str(answer),
    }
    return inherited() | ours | dict(database(contestant.database)) | dict(contestant.settings)


def inherited() -> dict[str, str]:
    """Return the environment variables of this process that others get.

    Byte code is cached as on an installed machine: otherwise each start would compile it.
    """
    return {key: text for key, text in os.environ.items() if key not in HIDDEN}


HIDDEN = frozenset(
    {
        "DATABASE_URL",
        "DEBUG",
        "DJANGO_SETTINGS_MODULE",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "REDIS_URL",
    }
)
"""Our variables that contestants do not inherit."""


@cache
def database(kind: str) -> Mapping[str, str]:
    """Create a database with the tables, a group, and a user with a token of each kind.

    Returns the variables that name it.
    """
    named = empty_database(kind)
    both = "token.TokenAuthentication oauth_toolkit.OAuthToolkitAuthentication"
    for arguments in (("migrate", "--verbosity", "0"), ("shell", "--command", FIRST_ROWS)):
        apps = {"BENCH_AUTHENTICATORS": both, "BENCH_CALL_LOG": "1"}
        _run_python("-m", "django", *arguments, **SITE, **named, **apps)
    return named


def empty_database(kind: str) -> Mapping[str, str]:
    """Create a database without tables; return the variables that name it."""
    return {"sqlite": _sqlite_file, "postgresql": _postgresql_database}[kind]()


def _sqlite_file() -> Mapping[str, str]:
    path = str(Path(tempfile.mkdtemp(prefix="bench-")) / "db.sqlite3")
    return {"BENCH_DATABASE": path, "EXAMPLE_DATABASE": path}


def _postgresql_database() -> Mapping[str, str]:
    """Create a database of this run, which is dropped at its end, on the server of DATABASE_URL."""
    server, name = urlsplit(os.environ[POSTGRESQL]), f"bench_{os.getpid()}"
    admin = server._replace(path="/postgres").geturl()
    _run_python("-c", STATEMENT, admin, f"CREATE DATABASE {name}")
    atexit.register(_run_python, "-c", STATEMENT, admin, f"DROP DATABASE {name} WITH (FORCE)")
    return {"BENCH_POSTGRESQL": server._replace(path=f"/{name}").geturl()}


STATEMENT = """
import sys
import psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(sys.argv[2])
"""


def _run_python(*arguments: str, **variables: str) -> None:
    subprocess.run(
        [str(environments.python("site")), *arguments],
        cwd=environments.ROOT,
        env={**os.environ, **variables, "PYTHONPATH": str(environments.ROOT)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


FIRST_ROWS = f"""
from datetime import timedelta
from django.contrib.auth.models import Group, User
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application
from django_mcp.auth.token import digest_of
from django_mcp.contrib.tokens.models import PersonalAccessToken
Group.objects.create(pk=1, name="readers")
user = User.objects.create(username="ann")
User.objects.bulk_create(
    User(username=f"user{{n}}", first_name="Ann", last_name="Example", email=f"{{n}}@example.com")
    for n in range({TABLE_ROWS})
)
PersonalAccessToken.objects.create(owner=user, name="bench", digest=digest_of({TOKEN!r}))
AccessToken.objects.create(
    user=user,
    application=Application.objects.create(client_id="bench"),
    token={TOOLKIT_TOKEN!r},
    resource=[{AUDIENCE!r}],
    expires=timezone.now() + timedelta(days=1),
)
"""


def wait_for_connection(port: int, failed: Callable[[], str | None]) -> None:
    """Wait for connections; raises MeasurementError with the output of a server that exited."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
            return
        except OSError:
            output = failed()
            if output is not None:
                raise MeasurementError(f"The server has exited:\n{output}") from None
            time.sleep(PAUSE)
    raise MeasurementError(f"The server does not listen after {TIMEOUT:g} seconds")


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it after a while."""
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
