"""A site below a prefix, under five ASGI servers and inside Starlette."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.asgi_servers.programs import APPLICATION, BARE
from tests.http_client import connect, message
from tests.processes import server

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
def site(request: pytest.FixtureRequest) -> Iterator[str]:
    """The host and path of the endpoint, whose server runs below a prefix."""
    with server(SERVERS[request.param], environment=BARE) as running:
        yield f"{running.port} {PATHS.get(request.param, '/app/mcp')}"


def request(site: str, path: str, name: str) -> httpx.Response:
    body, headers = message(name, {"a": 1, "b": 2})
    with connect(int(site.split()[0])) as client:
        return client.post(path, content=body, headers=headers)


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_below_a_prefix_is_answered(site: str, tool: str) -> None:
    response = request(site, site.split()[1], tool)
    assert response.status_code == 200, response.text
    assert response.json()["result"]["structuredContent"] == 3


def test_other_paths_below_the_prefix_are_answered_by_django(site: str) -> None:
    path = site.split()[1].replace("/mcp", "/elsewhere")
    assert request(site, path, "add").status_code == 404
