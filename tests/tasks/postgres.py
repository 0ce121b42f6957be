"""A PostgreSQL server of its own in a temporary folder, which a test may stop and start."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import SECONDS

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def why_not() -> str | None:
    """Return why no server can be started, or None if it can."""
    if find_binaries() is None:
        return "initdb and pg_ctl of PostgreSQL are not installed"
    return None


def find_binaries() -> Path | None:
    named = shutil.which("initdb")
    folders = [Path(named).parent] if named else []
    folders += reversed(BINARIES)
    return next((each for each in folders if (each / "initdb").exists()), None)


class PostgreSQL:
    def __init__(self, folder: Path, binaries: Path, port: int) -> None:
        self.port = port
        self._folder = folder
        self._binaries = binaries

    def create(self) -> None:
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self._folder} -F"
        log = self._folder / "log"
        self._run("pg_ctl", "start", "-w", "-t", str(int(SECONDS)), "-o", options, "-l", str(log))

    def stop(self) -> None:
        """End all connections, as a restart does."""
        self._run("pg_ctl", "stop", "-w", "-t", str(int(SECONDS)), "-m", "fast")

    def _run(self, program: str, *options: str) -> None:
        # PostgreSQL does not run as root.
        user = "postgres" if os.geteuid() == 0 else None
        command = [str(self._binaries / program), "-D", str(self._folder / "data"), *options]
        # To a file: the server keeps the output of pg_ctl open.
        with (self._folder / "output").open("a+") as output:
            done = subprocess.run(
                command, cwd=self._folder, user=user, stdout=output, stderr=output, timeout=SECONDS
            )
            if done.returncode:
                output.seek(0)
                raise RuntimeError(f"{program} failed:\n{output.read()}")


@contextmanager
def running_postgres() -> Iterator[PostgreSQL]:
    binaries = find_binaries()
    assert binaries is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = PostgreSQL(folder, binaries, port)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
