"""Start and stop contestants on the core of the servers."""

from __future__ import annotations

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

from tests.benchmarks import environments, machine
from tests.benchmarks.answers import TIMEOUT, MeasurementError
from tests.benchmarks.calls import TOKEN
from tests.benchmarks.contestants import SERVERS, SITE, Contestant

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
    port = _free_port()
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
    # Byte code is cached as on an installed machine: otherwise each start would compile it.
    inherited = {key: text for key, text in os.environ.items() if key not in HIDDEN}
    answer = folder / "answer.json"
    if contestant.answer is not None:
        answer.write_bytes(contestant.answer.to_json())
    ours = {
        "PYTHONPATH": str(contestant.checkout or environments.ROOT),
        "BENCH_DATABASE": str(database()),
        "EXAMPLE_DATABASE": str(database()),
        "BENCH_ANSWER": str(answer),
    }
    return inherited | ours | dict(contestant.settings)


HIDDEN = frozenset(
    {
        "DEBUG",
        "DJANGO_SETTINGS_MODULE",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "REDIS_URL",
    }
)
"""Our variables that contestants do not inherit."""


@cache
def database() -> Path:
    """Create the SQLite file with the tables, a group, and a user with a token."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    path = folder / "db.sqlite3"
    run = [str(environments.python("site")), "-m", "django"]
    ours = {"BENCH_DATABASE": str(path), "BENCH_AUTHENTICATOR": "token.TokenAuthentication"}
    variables: Mapping[str, str] = {**os.environ, **SITE, **ours}
    for arguments in (("migrate", "--verbosity", "0"), ("shell", "--command", FIRST_ROWS)):
        subprocess.run(
            [*run, *arguments],
            cwd=environments.ROOT,
            env={**variables, "PYTHONPATH": str(environments.ROOT)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return path


FIRST_ROWS = f"""
from django.contrib.auth.models import Group, User
from django_mcp.auth.token import digest_of
from django_mcp.tokens.models import PersonalAccessToken
Group.objects.create(pk=1, name="readers")
user = User.objects.create(username="ann")
PersonalAccessToken.objects.create(owner=user, name="bench", digest=digest_of({TOKEN!r}))
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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
