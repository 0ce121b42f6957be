"""Server processes of tests: started, awaited, and ended with their children, in bounded time."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.waiting import SECONDS, wait_until

ROOT = Path(__file__).resolve().parent.parent
START = SECONDS
"""Seconds until a server answers, on a busy machine."""
STOP = 10.0
"""Seconds until a server that is asked to stop is killed."""
PORTS = range(20_000, 32_000)
"""Below the ports that the kernel gives to connections, so that nobody has the one of a server that
is away, and no client that connects to it reaches itself."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A process that listens on a port, the leader of its group, with all that it has written."""

    process: subprocess.Popen[bytes]
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def terminate(self) -> None:
        """Ask the process to stop."""
        self.process.terminate()

    def kill(self) -> None:
        """End the process and its children at once, as a machine that fails."""
        kill_group(self.process)

    def stop(self) -> None:
        """Stop the process in the orderly way, and kill what is left."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP)
        self.kill()


@contextmanager
def server(
    command: Sequence[str | Path],
    *,
    python: str | Path = sys.executable,
    folder: Path = ROOT,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[ServerProcess]:
    """Run what serves HTTP, from its first answer to the end of the block.

    A command begins with the path of a program, or with the name of a module of Python. ``{port}``
    in it is a free port.
    """
    port = free_port()
    words = [str(word).format(port=port) for word in command]
    with tempfile.TemporaryDirectory(prefix="server-") as kept:
        log_file = Path(kept) / "log"
        start = [] if isinstance(command[0], Path) else [str(python), "-m"]
        process = spawn([*start, *words], log_file, folder, env=environment)
        started = ServerProcess(process, port, log_file)
        try:
            wait_until(
                lambda: answers(port) or not started.is_running,
                f"{words[0]} answers",
                seconds=START,
                pause=0.05,
            )
            if not started.is_running:
                raise RuntimeError(f"The server did not start:\n{started.log}")
            yield started
        finally:
            started.stop()


def spawn(
    command: Sequence[str], log_file: Path, folder: Path, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process as the leader of a group, which writes to a file."""
    with log_file.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **options,
        )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(START)


def answers(port: int) -> bool:
    """Whether an HTTP server answers there, with any status."""
    # A client of httpx would load the certificates of all authorities, each time.
    connection = HTTPConnection("127.0.0.1", port, timeout=START)
    try:
        connection.request("GET", "/nothing")
        connection.getresponse()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return True


def free_port() -> int:
    """A port of the loopback interface that nobody listens on, and that no client is given."""
    for port in random.Random().sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("There is no free port")
