"""A site below a prefix, under five ASGI servers and inside Starlette."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.asgi_servers.test_asgi_servers import (
    APPLICATION,
    ROOT,
    TIMEOUT,
    accepts_connections,
    free_port,
    message,
)
from tests.waiting import wait_until

PREFIXED = "tests.asgi_servers.prefixed:application"
WORKER = "tests.asgi_servers.prefixed_worker.PrefixedWorker"

SERVERS = {
    "uvicorn": ["uvicorn", "--port", "{port}", "--root-path", "/app", APPLICATION],
    "granian": [
        *("granian", "--interface", "asgi", "--port", "{port}"),
        *("--url-path-prefix", "/app", APPLICATION),
    ],
    "daphne": ["daphne", "-p", "{port}", "--root-path", "/app", APPLICATION],
    "hypercorn": ["hypercorn", "--bind", "127.0.0.1:{port}", "--root-path", "/app", APPLICATION],
    "gunicorn": ["gunicorn", "--bind", "127.0.0.1:{port}", "-k", WORKER, APPLICATION],
    "uvicorn, Starlette": ["uvicorn", "--port", "{port}", PREFIXED],
}
PATHS = {"uvicorn": "/mcp", "gunicorn": "/mcp"}
"""The path of a request, by server; /app/mcp by default. Uvicorn expects a proxy which removes the
prefix, and adds it again."""


@pytest.fixture(params=SERVERS, scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host and path of the endpoint, whose server runs below a prefix."""
    port, log = free_port(), tmp_path_factory.mktemp("log") / "log"
    command = [part.format(port=port) for part in SERVERS[request.param]]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "", "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: accepts_connections(port) or process.poll() is not None)
        assert process.poll() is None, Path(log).read_text()
        yield f"{port} {PATHS.get(request.param, '/app/mcp')}"
    finally:
        process.terminate()
        process.wait(TIMEOUT)


def request(site: str, path: str, name: str) -> tuple[int, str]:
    port = int(site.split()[0])
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("POST", path, *message(name, {"a": 1, "b": 2}))
    with connection.getresponse() as response:
        text = response.read().decode()
    connection.close()
    return response.status, text


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_below_a_prefix_is_answered(site: str, tool: str) -> None:
    status, text = request(site, site.split()[1], tool)
    assert status == 200, text
    assert json.loads(text)["result"]["structuredContent"] == 3


def test_other_paths_below_the_prefix_are_answered_by_django(site: str) -> None:
    path = site.split()[1].replace("/mcp", "/elsewhere")
    assert request(site, path, "add")[0] == 404
