"""Private servers of Redis, PostgreSQL and MariaDB, which a test may restart, kill and hang.

Each listens on a free port of the loopback interface, keeps its files in a temporary folder, and is
killed at the end of its block, in whatever state the test left it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from tests.processes import free_port, spawn
from tests.supervisor import descendants
from tests.waiting import SECONDS, wait_until

START = SECONDS
"""Seconds until a server answers, or has stopped."""
POSTGRESQL_FOLDERS = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),)


class Instance(ABC):
    """One private server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect to."""

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may hang."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server if it does not run, on the same port; return when it answers."""
        self.begin()
        wait_until(lambda: self._answers() or not self.is_running, seconds=START, pause=0.05)
        if not self.is_running:
            raise RuntimeError(f"The server did not start:\n{self.log}")

    def begin(self) -> None:
        """Start the server if it does not run."""
        if self.is_running:
            return
        log = self.folder / "log"
        self._process = spawn(self._command(), log, self.folder, **self._identity())

    def stop(self) -> None:
        """Stop the server in the orderly way, and wait for its end."""
        if self._process is not None and self.is_running:
            self.resume()
            self._process.send_signal(self._stop_signal)
            self._process.wait(START)

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """End every process of the server at once."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(START)

    def hang(self) -> None:
        """Stop every process of the server: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let what hangs go on."""
        self._signal(signal.SIGCONT)

    _stop_signal = signal.SIGTERM

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server answers a request now."""

    def _identity(self) -> dict[str, Any]:
        """The user and the environment of the process, as arguments of ``Popen``."""
        return {}

    def _signal(self, number: int) -> None:
        """Signal the first process, so that it starts no further one, and then its children."""
        if self._process is None or self._process.poll() is not None:
            return
        before = descendants(self._process.pid)
        self._process.send_signal(number)
        # What was killed has no children any more; what hangs may have got further ones.
        for child in {*before, *descendants(self._process.pid)}:
            with suppress(ProcessLookupError):
                os.kill(child, number)


Server = TypeVar("Server", bound=Instance)


class Redis(Instance):
    """Redis, which keeps nothing on disk: a restart forgets everything."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        """Delete every key."""
        assert self.command("FLUSHALL") == b"+OK\r\n"

    def keys(self) -> int:
        """How many keys there are."""
        return int(self.command("DBSIZE").strip().removeprefix(b":"))

    def described_keys(self) -> dict[str, str]:
        """The keys there are, each with its type and the seconds until it expires, or -1."""
        names = [name for name in self.command("KEYS", "*").decode().split("\r\n") if ":" in name]
        return {
            name: f"{self.command('TYPE', name)!r} {self.command('TTL', name)!r}" for name in names
        }

    def has(self, key: str) -> bool:
        """Whether there is such a key; processes of an earlier test may write others."""
        return self.command("EXISTS", key) == b":1\r\n"

    def command(self, *words: str) -> bytes:
        """The first bytes of the answer; for commands with a short one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=START) as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.recv(65536)

    def _command(self) -> list[str]:
        binary = shutil.which("redis-server")
        assert binary is not None
        listen = ["--bind", "127.0.0.1", "--port", str(self.port)]
        return [binary, *listen, "--save", "", "--appendonly", "no", "--dir", str(self.folder)]

    def _answers(self) -> bool:
        try:
            return self.command("PING") == b"+PONG\r\n"
        except OSError:
            return False


class PostgreSQL(Instance):
    """PostgreSQL, which lets everybody in and does not wait for the disk."""

    def __init__(self, folder: Path, *, max_connections: int = 100) -> None:
        super().__init__(folder)
        self.max_connections = max_connections
        self._names = (f"test_{number}" for number in count(1))

    # A "fast" shutdown: it ends connections instead of waiting for clients to close them.
    _stop_signal = signal.SIGINT

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def settings(self, database: str = "postgres", **options: Any) -> dict[str, Any]:
        """An entry of ``DATABASES``."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": database,
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "USER": "postgres",
            "PASSWORD": "",
            **options,
        }

    def create_database(self) -> str:
        """The name of a new, empty database."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
        return name

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run a statement as the administrator, and return its rows."""
        import psycopg

        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return list(found.fetchall()) if found.description else []

    def connections(self, database: str) -> int:
        """How many connections of clients there are to a database.

        The server's own processes, such as a worker of autovacuum, are rows of the same table.
        """
        counted = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        return int(self.execute(f"{counted} AND datname = '{database}'")[0][0])

    def prepare(self) -> None:
        """Create the files of the server."""
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run(
            [
                self._binary("initdb"),
                *("--pgdata", str(self.folder / "data"), "--username", "postgres"),
                *("--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            **self._identity(),
        )

    def _command(self) -> list[str]:
        values = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": self.max_connections,
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "shared_buffers": "16MB",
        }
        options = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        return [self._binary("postgres"), "-D", str(self.folder / "data"), *options]

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def _identity(self) -> dict[str, Any]:
        # PostgreSQL refuses to run as root.
        if os.getuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    @staticmethod
    def _binary(name: str) -> str:
        found = _postgresql_binary(name)
        assert found is not None
        return found


class MariaDB(Instance):
    """MariaDB, whose root needs no password."""

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/mysql"

    def prepare(self) -> None:
        """Create the files of the server."""
        if os.getuid() == 0:
            shutil.chown(self.folder, "mysql", "mysql")
        subprocess.run(
            [
                "mariadb-install-db",
                *("--no-defaults", f"--datadir={self.folder / 'data'}", "--skip-test-db"),
                "--auth-root-authentication-method=normal",
            ],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            **self._identity(),
        )

    def _command(self) -> list[str]:
        return [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd",
            *("--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}"),
            *("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--skip-name-resolve"),
            "--character-set-server=utf8mb4",
        ]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False

    def _identity(self) -> dict[str, Any]:
        if os.getuid() != 0:
            return {}
        return {"user": "mysql", "group": "mysql", "extra_groups": []}


@contextmanager
def redis_server() -> Iterator[Redis]:
    """A new server of Redis; skips the test where it is not installed."""
    import pytest

    if (reason := why_not_redis_server()) is not None:
        pytest.skip(reason)
    with (
        tempfile.TemporaryDirectory(prefix="redis-") as folder,
        running(Redis(Path(folder))) as server,
    ):
        yield server


@contextmanager
def postgresql_server(*, max_connections: int = 100) -> Iterator[PostgreSQL]:
    """A new server of PostgreSQL; skips the test where it is not installed."""
    import pytest

    if (reason := why_not_postgresql_server()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        server = PostgreSQL(Path(folder), max_connections=max_connections)
        server.prepare()
        with running(server):
            yield server


@contextmanager
def mariadb_server() -> Iterator[MariaDB]:
    """A new server of MariaDB."""
    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder:
        server = MariaDB(Path(folder))
        server.prepare()
        with running(server):
            yield server


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run a server within the block."""
    try:
        server.start()
        yield server
    finally:
        server.kill()


def why_not_redis_server() -> str | None:
    """Why there can be no private Redis here, or None."""
    return None if shutil.which("redis-server") else "redis-server is not installed"


def why_not_postgresql_server() -> str | None:
    """Why there can be no private PostgreSQL here, or None."""
    if not (_postgresql_binary("initdb") and _postgresql_binary("postgres")):
        return "postgresql is not installed"
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "there is no user postgres, and PostgreSQL does not run as root"
    return None


def _postgresql_binary(name: str) -> str | None:
    aside = (str(folder / name) for folder in POSTGRESQL_FOLDERS if (folder / name).exists())
    return next(aside, None) or shutil.which(name)
