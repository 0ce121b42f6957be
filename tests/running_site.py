"""The example site for real clients: in its own process, on a free port."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests import migrated_file
from tests.processes import ROOT, ServerProcess, server


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSite:
    """A running Django project: its port, and its log so far."""

    port: int
    python: Path
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    process: ServerProcess = field(repr=False)

    @property
    def log(self) -> str:
        return self.process.log

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self.process.kill()

    def url(self, path: str) -> str:
        # The official suite compares Host and Origin with localhost, so the URL contains that name.
        return f"http://localhost:{self.port}{path}"

    def manage(self, *arguments: str) -> None:
        """Run a management command of the project, on its database."""
        manage(self.python, self.folder, self.environment, *arguments)


def daphne(application: str) -> list[str]:
    """The command of the server that most tests use."""
    return ["daphne", "-b", "127.0.0.1", "-p", "{port}", application]


EXAMPLE_SITE = daphne("example_site.asgi:application")


@contextmanager
def running_site(
    command: Sequence[str | Path] = EXAMPLE_SITE, *, demo_data: bool = False, **settings: str
) -> Iterator[RunningSite]:
    """Run the example site with a new database; `settings` are environment variables."""
    with tempfile.TemporaryDirectory() as database:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "example_site.settings",
            "EXAMPLE_DATABASE": str(Path(database) / "db.sqlite3"),
            **settings,
        }
        python = Path(sys.executable)
        create_tables(python, environment)
        if demo_data:
            manage(python, ROOT, environment, "demo_data")
        with serving_by(command, python, ROOT, environment) as site:
            yield site


@contextmanager
def two_workers(settings_module: str, redis_url: str) -> Iterator[tuple[RunningSite, RunningSite]]:
    """Run two processes of the example site, with one new database and one channel layer."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": settings_module,
            "EXAMPLE_DATABASE": str(Path(folder) / "db.sqlite3"),
            "EXAMPLE_REDIS_URL": redis_url,
            "LAYER_PREFIX": f"test-{uuid4().hex}",
        }
        python = Path(sys.executable)
        create_tables(python, environment)
        serve = ("example_site.asgi:application", python, ROOT, environment)
        yield stack.enter_context(serving(*serve)), stack.enter_context(serving(*serve))


@contextmanager
def serving(
    application: str, python: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[RunningSite]:
    """Run a Django project with daphne within the block."""
    with serving_by(daphne(application), python, folder, environment) as site:
        yield site


@contextmanager
def serving_by(
    command: Sequence[str | Path], python: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[RunningSite]:
    """Run a Django project with any program or module of Python that serves it."""
    with server(command, python=python, folder=folder, environment=environment) as process:
        yield RunningSite(
            port=process.port,
            python=python,
            folder=folder,
            environment=environment,
            process=process,
        )


def create_tables(python: Path, environment: Mapping[str, str]) -> None:
    """Create the tables of the example site, whose settings may be extended."""
    if migrated_file.RUN.folder is None:
        manage(python, ROOT, environment, "migrate", "--verbosity", "0")
    else:
        migrated_file.copy(Path(environment["EXAMPLE_DATABASE"]))


def manage(python: Path, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
    """Run a management command of the project in this folder; print its output if it fails."""
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
