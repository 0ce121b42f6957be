"""Contestants: an application, its server, and the request that it receives.

Each peer has its fastest configuration: stateless and with plain JSON where it supports that, on
the server that suits it best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.benchmarks.answers import Answer
from tests.benchmarks.calls import ADD, FIRST_LIST, SESSIONS, Call

SERVERS: Mapping[str, tuple[str, ...]] = {
    "uvicorn": (
        "-m", "uvicorn", "{application}", "--host", "127.0.0.1", "--port", "{port}",
        "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning",
    ),
    "uvicorn-pure": (
        "-m", "uvicorn", "{application}", "--host", "127.0.0.1", "--port", "{port}",
        "--loop", "asyncio", "--http", "h11", "--no-access-log", "--log-level", "warning",
    ),
    "granian": (
        "-m", "granian", "{application}", "--host", "127.0.0.1", "--port", "{port}",
        "--interface", "asgi", "--workers", "1", "--loop", "uvloop", "--no-ws",
        "--log-level", "warning",
    ),
    "daphne": (
        "-m", "daphne", "--bind", "127.0.0.1", "--port", "{port}", "--verbosity", "0",
        "{application}",
    ),
    "gunicorn": (
        "-m", "gunicorn", "{application}", "--bind", "127.0.0.1:{port}", "--workers", "1",
        "--worker-class", "gthread", "--threads", "4", "--log-level", "warning",
    ),
    "gunicorn-sync": (
        "-m", "gunicorn", "{application}", "--bind", "127.0.0.1:{port}", "--workers", "1",
        "--log-level", "warning",
    ),
    # A server of its own, in Rust: neither ASGI nor WSGI. Its settings name the application.
    "bolt": (
        "-m", "django", "runbolt", "--host", "127.0.0.1", "--port", "{port}", "--processes", "1",
    ),
}  # fmt: skip
"""The arguments for Python; one process for each list."""
WSGI_SERVERS = ("gunicorn", "gunicorn-sync")

POSTGRESQL = "DATABASE_URL"
"""The variable that names the server of the cases on PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """An application on a server, and its request."""

    name: str
    environment: str
    application: str = ""
    """The import path of the application: `module:name`."""
    server: str = "uvicorn"
    path: str = "/mcp"
    call: Call = ADD
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""
    command: tuple[str, ...] = ()
    """The arguments for Python, for a contestant over stdio."""
    answer: Answer | None = None
    """The response that the bare application repeats."""
    database: str = "sqlite"
    """Or "postgresql"."""
    checkout: Path | None = None
    """Another checkout of this project to run, instead of this one."""

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.name if self.command else f"{self.name} on {self.server}"

    def repeating(self, answer: Answer | None) -> Contestant:
        """Return the bare application with this response; any other contestant unchanged."""
        return replace(self, answer=answer) if self.name == "bare" else self


SITE = {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.site.settings"}


def ours(
    call: Call, *, server: str = "uvicorn", database: str = "sqlite", **settings: str
) -> Contestant:
    """Return the measured project, as an application of the kind that the server takes."""
    interface = "wsgi" if server in WSGI_SERVERS else "asgi"
    return Contestant(
        name="django_mcp",
        environment="site",
        application=f"tests.benchmarks.site.{interface}:application",
        server=server,
        call=call,
        database=database,
        settings=SITE | settings,
    )


def bare(call: Call, *, server: str = "uvicorn") -> Contestant:
    """Return the bare application, on the same server with the same options."""
    return Contestant(
        name="bare",
        environment="site",
        application="tests.benchmarks.bare_asgi:application",
        server=server,
        call=call,
    )


def sdk(call: Call, **settings: str) -> Contestant:
    """Return the official Python SDK."""
    return Contestant(
        name="official SDK",
        environment="sdk",
        application="tests.benchmarks.peers.sdk:application",
        call=call,
        settings=settings,
    )


def fastmcp(call: Call, **settings: str) -> Contestant:
    """Return FastMCP."""
    return Contestant(
        name="FastMCP",
        environment="fastmcp",
        application="tests.benchmarks.peers.fastmcp:application",
        call=call,
        settings=settings,
    )


def mcpz(
    call: Call,
    *,
    server: str = "gunicorn-sync",
    database: str = "sqlite",
    **settings: str,
) -> Contestant:
    """Return django-mcpz, a synchronous Django view."""
    return Contestant(
        name="django-mcpz",
        environment="mcpz",
        application="tests.benchmarks.peers.mcpz:application",
        server=server,
        call=call,
        database=database,
        settings=settings,
    )


def django_mcp_server(call: Call, *, database: str = "sqlite", **settings: str) -> Contestant:
    """Return django-mcp-server, a Django view around version 1 of the SDK."""
    return Contestant(
        name="django-mcp-server",
        environment="django_mcp_server",
        application="tests.benchmarks.peers.django_mcp_server:application",
        server="gunicorn-sync",
        call=replace(call, version=SESSIONS),
        database=database,
        settings=settings,
    )


def rest_framework_mcp_server(
    call: Call, *, database: str = "sqlite", **settings: str
) -> Contestant:
    """Return djangorestframework-mcp-server, a view of REST framework."""
    return Contestant(
        name="djangorestframework-mcp-server",
        environment="rest_framework_mcp_server",
        application="tests.benchmarks.peers.rest_framework_mcp_server:application",
        server="gunicorn-sync",
        path="/",
        call=call,
        database=database,
        settings=settings,
    )


def bolt(call: Call) -> Contestant:
    """Return bolt-mcp, on the newest Python."""
    return Contestant(
        name="bolt-mcp",
        environment="bolt",
        server="bolt",
        call=call,
        settings={"DJANGO_SETTINGS_MODULE": "tests.benchmarks.peers.bolt"},
    )


def on_newest(contestant: Contestant) -> Contestant:
    """Return the measured project or the bare application, on the newest Python."""
    return replace(contestant, environment="site-newest")


def everyone(call: Call, **settings: str) -> tuple[Contestant, ...]:
    """Return every peer."""
    return sdk(call, **settings), fastmcp(call, **settings), *django_peers(call, **settings)


def django_peers(
    call: Call, *, database: str = "sqlite", **settings: str
) -> tuple[Contestant, ...]:
    """Return the peers that run in a Django project, django-mcpz on both kinds of workers."""
    return (
        mcpz(call, database=database, **settings),
        mcpz(call, server="gunicorn", database=database, **settings),
        django_mcp_server(call, database=database, **settings),
        rest_framework_mcp_server(call, database=database, **settings),
    )


OURS_OVER_STDIO = Contestant(
    name="django_mcp",
    environment="site",
    command=("-m", "django", "mcp_stdio"),
    settings=SITE,
)
SDK_OVER_STDIO = Contestant(
    name="official SDK", environment="sdk", command=("-m", "tests.benchmarks.peers.sdk")
)
EXAMPLE_SITE = Contestant(
    name="example site",
    environment="site",
    application="example_site.asgi:application",
    server="daphne",
    call=FIRST_LIST,
    settings={"DJANGO_SETTINGS_MODULE": "example_site.settings"},
)
BARE_PROJECT = Contestant(
    name="bare Django project",
    environment="site",
    application="tests.benchmarks.bare_project:application",
    server="daphne",
    call=FIRST_LIST,
)
