"""The example site as real clients meet it: daphne in a process of its own, on a free port."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60
STOP_SECONDS = 10
LISTENING = re.compile(r"Listening on TCP address [^ ]+:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSite:
    """A Django project which is being served: where it answers, what it has logged so far."""

    port: int
    python: Path
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    log: list[str] = field(repr=False)

    def url(self, path: str) -> str:
        # The official suite compares Host and Origin with localhost, so that is the name to use.
        return f"http://localhost:{self.port}{path}"

    def manage(self, *arguments: str) -> None:
        """Runs a management command of the project, on its database."""
        manage(self.python, self.folder, self.environment, *arguments)


@contextmanager
def running_site(*, demo_data: bool = False, **settings: str) -> Iterator[RunningSite]:
    """Serves the example site on a new database; `settings` are environment variables."""
    with tempfile.TemporaryDirectory() as database:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "example_site.settings",
            "EXAMPLE_SITE_DATABASE": str(Path(database) / "db.sqlite3"),
            **settings,
        }
        python = Path(sys.executable)
        manage(python, ROOT, environment, "migrate", "--verbosity", "0")
        if demo_data:
            manage(python, ROOT, environment, "demo_data")
        with serving("example_site.asgi:application", python, ROOT, environment) as site:
            yield site


@contextmanager
def serving(
    application: str, python: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[RunningSite]:
    """Serves any Django project with daphne, until the block is left."""
    log: list[str] = []
    with subprocess.Popen(
        [python, "-m", "daphne", "--bind", "127.0.0.1", "--port", "0", application],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            port = _port(process, log)
            yield RunningSite(
                port=port, python=python, folder=folder, environment=environment, log=log
            )
        finally:
            _stop(process)


def manage(python: Path, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
    """Runs a management command of the project in this folder; its output is shown if it fails."""
    done = subprocess.run(
        [python, "manage.py", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"manage.py {' '.join(arguments)} failed:\n{done.stdout}")


def _port(process: subprocess.Popen[str], log: list[str]) -> int:
    """The port which the kernel chose for us, as daphne's own log tells it."""
    assert process.stderr is not None
    known = threading.Event()
    port: list[int] = []
    reader = threading.Thread(target=_read, args=(process.stderr, log, port, known), daemon=True)
    reader.start()
    known.wait(START_SECONDS)
    if not port:
        raise RuntimeError("The site did not start:\n" + "".join(log))
    return port[0]


def _read(stderr: IO[str], log: list[str], port: list[int], known: threading.Event) -> None:
    # Reads on for as long as the process lives, so that a full pipe never stops it.
    for line in stderr:
        log.append(line)
        if match := LISTENING.search(line):
            port.append(int(match[1]))
            known.set()
    known.set()


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
