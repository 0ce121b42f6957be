"""Workers and proxies as the documentation has them, which are restarted one after the other."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.benchmarks.faults import traffic
from tests.benchmarks.faults.tally import Tally
from tests.processes import ROOT
from tests.services import pages
from tests.services.instances import Instance, PostgreSQL, Redis, running
from tests.services.workers import (
    CACHE_STORES,
    cache_of,
    create_people,
    layer,
    manage,
    nginx_around,
    nginx_binary,
    started,
)

SETTLED = 2.0
"""Seconds of traffic before each restart, which the page advises, and after the last one."""


class Worker(Instance):
    """A process of an ASGI server, started as the page has it."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        server: str,
        listener: socket.socket | None = None,
    ) -> None:
        """``listener`` is the socket that systemd has made, for a worker without its own port."""
        super().__init__(folder)
        self._environment = environment
        self._server = server
        self._listener = listener
        self._log_before = 0
        if listener is not None:
            self.port = listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> list[str]:
        if self._listener is None:
            return pages.command(self._server, self.port)
        started = [sys.executable, "-c", AS_SYSTEMD, str(self._listener.fileno())]
        return [*started, *pages.command_of_socket(self._server)]

    def _answers(self) -> bool:
        # Behind a shared socket, another one may answer.
        has_started = STARTED.search(self.log[self._log_before :]) is not None
        return is_ready(self.port) and (self._listener is None or has_started)

    def begin(self) -> None:
        if not self.is_running:
            self._log_before = len(self.log) if (self.folder / "log").exists() else 0
        super().begin()

    def _identity(self) -> dict[str, Any]:
        passed = () if self._listener is None else (self._listener.fileno(),)
        return {"env": self._environment, "pass_fds": passed}


STARTED = re.compile(r'Uvicorn running|Listening at|"GET /mcp/readyz')
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs a command with a socket as descriptor 3, as systemd does."""


class Proxy(Instance):
    """A proxy with the configuration of the page."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        super().__init__(folder)
        self.ports = ports
        self.configure()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def configure(self) -> None:
        """Write the configuration."""

    def _answers(self) -> bool:
        return is_ready(self.port)


class Nginx(Proxy):
    """Without TLS, which the test would spend its time on."""

    def configure(self) -> None:
        text = pages.configuration("nginx", self.ports)
        text = re.sub(r"server \{\n    listen 80;.*?\n\}\n", "", text, flags=re.DOTALL)
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{self.port};")
        (self.folder / "site.conf").write_text(re.sub(r" *ssl_certificate.*\n", "", text))
        (self.folder / "nginx.conf").write_text(nginx_around("include site.conf;"))

    def _command(self) -> list[str]:
        binary = nginx_binary()
        assert binary is not None
        return [binary, "-p", str(self.folder), "-c", "nginx.conf", "-e", "log"]


class Caddy(Proxy):
    """Without TLS, since it would ask a certificate authority."""

    def configure(self) -> None:
        text = pages.configuration("caddyfile", self.ports)
        first, rest = text.split("\n", 1)
        assert first == f"{pages.HOST} {{"
        text = f"{{\n    admin off\n}}\nhttp://127.0.0.1:{self.port} {{\n{rest}"
        (self.folder / "Caddyfile").write_text(text)

    def _command(self) -> list[str]:
        return [program("caddy"), "run", "--config", "Caddyfile", "--adapter", "caddyfile"]

    def _identity(self) -> dict[str, Any]:
        home = str(self.folder)
        return {"env": {**os.environ, "HOME": home, "XDG_DATA_HOME": home}}


class Traefik(Proxy):
    """Without TLS, which is configured beside the file of the page."""

    def configure(self) -> None:
        text = pages.configuration("yaml", self.ports)
        assert "      tls: {}\n" in text
        text = text.replace("      tls: {}\n", "").replace(pages.HOST, "127.0.0.1")
        (self.folder / "mysite.yml").write_text(text)

    def _command(self) -> list[str]:
        return [
            program("traefik"),
            f"--entrypoints.web.address=127.0.0.1:{self.port}",
            "--providers.file.filename=mysite.yml",
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
        ]


PROXIES: Mapping[str, type[Proxy]] = {"nginx": Nginx, "caddy": Caddy, "traefik": Traefik}


def program(name: str) -> str:
    """The path of a program of the group ``proxies``."""
    return f"{sys.prefix}/bin/{name}"


def why_not(proxy: str) -> str | None:
    """Why there can be no such proxy here, or None."""
    is_there = nginx_binary() if proxy == "nginx" else Path(program(proxy)).exists()
    return None if is_there else f"{proxy} is not installed"


def is_ready(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/mcp/readyz"
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


class Site:
    """Workers and their proxy."""

    def __init__(
        self, workers: Sequence[Worker], proxy: Proxy, environment: Mapping[str, str]
    ) -> None:
        self.workers = workers
        self.proxy = proxy
        self.people = create_people(environment)
        self._environment = environment

    def started(self) -> list[str]:
        return started(self._environment)

    @property
    def logs(self) -> str:
        """What was written besides the requests."""
        lines = (line for each in (*self.workers, self.proxy) for line in each.log.splitlines())
        return "\n".join(line for line in lines if not EXPECTED.search(line))


EXPECTED = re.compile(r"HTTP/1\.[01]\" \d|\] \"(POST|GET|DELETE) /mcp|[Cc]onnection refused|^INFO")


@contextmanager
def site(
    server: str,
    proxy: str,
    redis: Redis,
    postgresql: PostgreSQL,
    *,
    number: int = 2,
    shares_socket: bool = False,
) -> Iterator[Site]:
    """Run workers of one kind behind a proxy."""
    if (reason := why_not(proxy)) is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rolling-")))
        folder.chmod(0o755)
        environment = environment_of(redis, postgresql, folder)
        manage(environment, "migrate", "--verbosity", "0")
        listener = None
        if shares_socket:
            assert pages.unit("mysite.socket")["ListenStream"] == pages.PORTS[0]
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        folders = [Path(tempfile.mkdtemp(dir=folder)) for _ in range(number + 1)]
        workers = [Worker(each, environment, server, listener) for each in folders[1:]]
        for worker in workers:
            stack.callback(worker.kill)
            worker.begin()
        for worker in workers:
            worker.start()
        ports = [worker.port for worker in workers]
        proxy_process = stack.enter_context(running(PROXIES[proxy](folders[0], ports)))
        yield Site(workers, proxy_process, environment)


def environment_of(redis: Redis, postgresql: PostgreSQL, folder: Path) -> Mapping[str, str]:
    given = {
        "database": postgresql.settings(postgresql.create_database()),
        "layer": layer(redis),
        "cache": cache_of(redis),
        "settings": {"STORES": CACHE_STORES},
    }
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.services.site.settings",
        "PYTHONPATH": str(ROOT),
        "SERVICES_SITE": json.dumps(given),
        "SERVICES_STARTED": str(folder / "started"),
    }


async def restart_all(site: Site, allowed: str | None = None) -> Tally:
    """Restart each worker while traffic of every kind goes on.

    Requests may fail before, as ``allowed``.
    """
    async with traffic.running(f"{site.proxy.url}/mcp", site, allowed) as running:
        for worker in site.workers:
            await asyncio.sleep(SETTLED)
            await asyncio.to_thread(worker.restart)
        running.tally.ended = time.monotonic()
        await asyncio.sleep(SETTLED)
    return running.tally
