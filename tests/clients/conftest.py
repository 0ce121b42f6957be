"""Fixtures for tests with real clients against the example site."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.clients import environments
from tests.clients.real_client import RealClient, real_client
from tests.processes import ROOT
from tests.running_site import RunningSite, running_site

Command = list[str | Path]
Json = dict[str, Any]

SDKS = Path(__file__).resolve().parent / "sdks"


def _python_1_1(target: Command) -> Command:
    return [environments.python("sdk1_1"), "-m", "tests.clients.sdks.python_1_1", *target]


def _python_1(target: Command) -> Command:
    return [environments.python("sdk1"), "-m", "tests.clients.sdks.python_1", *target]


def _python_2(target: Command) -> Command:
    return [environments.python("sdk2"), "-m", "tests.clients.sdks.python_2", "auto", *target]


def _python_2_legacy(target: Command) -> Command:
    return [environments.python("sdk2"), "-m", "tests.clients.sdks.python_2", "legacy", *target]


def _typescript(target: Command) -> Command:
    return [environments.node(), SDKS / "typescript.cjs", *target]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A client, its transport, and the revision that both sides negotiate."""

    command: Callable[[Command], Command]
    over: str
    version: str
    sessions: bool = True
    is_nightly: bool = False
    """Whether only .ci/nightly tests it: it is an older SDK, or what it shows others show, too."""


KINDS = {
    "python_2_http": Kind(command=_python_2, over="http", version="2026-07-28", sessions=False),
    "python_2_stdio": Kind(command=_python_2, over="stdio", version="2026-07-28", sessions=False),
    "python_2_legacy_http": Kind(command=_python_2_legacy, over="http", version="2025-11-25"),
    "python_2_legacy_stdio": Kind(
        command=_python_2_legacy, over="stdio", version="2025-11-25", is_nightly=True
    ),
    "python_1_http": Kind(command=_python_1, over="http", version="2025-11-25", is_nightly=True),
    "python_1_stdio": Kind(command=_python_1, over="stdio", version="2025-11-25", is_nightly=True),
    "typescript_http": Kind(command=_typescript, over="http", version="2025-11-25"),
}


def kinds(condition: Callable[[Kind], bool] = lambda kind: True) -> list[Any]:
    """The names of clients, as parameters of a test or a fixture."""
    return [
        pytest.param(name, marks=pytest.mark.nightly if kind.is_nightly else ())
        for name, kind in KINDS.items()
        if condition(kind)
    ]


with_sessions = pytest.mark.parametrize("kind", kinds(lambda kind: kind.sessions), indirect=True)
stateless = pytest.mark.parametrize("kind", kinds(lambda kind: not kind.sessions), indirect=True)

OLD_KINDS = {
    "python_1_1_sse": Kind(command=_python_1_1, over="sse", version="2024-11-05"),
    "python_1_1_stdio": Kind(command=_python_1_1, over="stdio", version="2024-11-05"),
}


@pytest.fixture(scope="session")
def site() -> Iterator[RunningSite]:
    """The example site, served by daphne."""
    with running_site(demo_data=True) as site:
        yield site
        # It goes with the folder of the process.
        logged = site.log
    assert "Traceback" not in logged, logged


@pytest.fixture(scope="session", params=kinds())
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each real client with each transport."""
    return KINDS[request.param]


@pytest.fixture(scope="session")
def client(kind: Kind, site: RunningSite) -> Iterator[RealClient]:
    """A client of the site's default server."""
    with connected(kind, site) as client:
        yield client


@pytest.fixture(scope="session")
def suite_client(kind: Kind, site: RunningSite) -> Iterator[RealClient]:
    """A client of the site's conformance server, which uses all features of the protocol."""
    with connected(kind, site, "conformance") as client:
        yield client


@pytest.fixture(scope="session", params=OLD_KINDS)
def old_kind(request: pytest.FixtureRequest) -> Kind:
    """Each transport of the client of revision 2024-11-05."""
    return OLD_KINDS[request.param]


@pytest.fixture(scope="session")
def old_client(old_kind: Kind, site: RunningSite) -> Iterator[RealClient]:
    """A client of revision 2024-11-05, connected to the site's default server."""
    with connected(old_kind, site) as client:
        yield client


@pytest.fixture(scope="session")
def old_suite_client(old_kind: Kind, site: RunningSite) -> Iterator[RealClient]:
    """The same client, connected to the conformance server."""
    with connected(old_kind, site, "conformance") as client:
        yield client


def connected(
    kind: Kind, site: RunningSite, server: str | None = None, *, port: int | None = None
) -> AbstractContextManager[RealClient]:
    """Connect a client to one of the site's servers; `port` is the port of a proxy."""
    url = _url(site, server, port)
    targets: dict[str, Command] = {"http": [url], "sse": [f"{url}/sse"], "stdio": _stdio(server)}
    # Node searches this folder for packages that a script outside of it requires.
    modules = {"NODE_PATH": str(environments.CLIENTS / "ts" / "node_modules")}
    return real_client(kind.command(targets[kind.over]), {**site.environment, **modules})


def _url(site: RunningSite, server: str | None, port: int | None) -> str:
    return replace(site, port=port or site.port).url(f"/{server or 'mcp'}")


def _stdio(server: str | None) -> Command:
    named = ["--server", server] if server else []
    return [sys.executable, ROOT / "manage.py", "mcp_stdio", *named]
