"""Clients which lose the connection in the middle of a call take it up where it broke."""

from collections.abc import Iterator

import pytest

from tests.clients.breakable import BreakableLine, breakable_line
from tests.clients.conftest import KINDS, Kind, connected
from tests.clients.real_client import Json, RealClient
from tests.running_site import RunningSite

RESUMING = ["python_1_http", "python_2_handshake_http", "typescript_http"]


@pytest.fixture
def line(site: RunningSite) -> Iterator[BreakableLine]:
    with breakable_line(site.port) as line:
        yield line


@pytest.fixture(params=RESUMING)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def client(kind: Kind, site: RunningSite, line: BreakableLine) -> Iterator[RealClient]:
    with connected(kind, site, port=line.port) as client:
        yield client


def test_a_call_goes_on_where_its_stream_broke(client: RealClient, line: BreakableLine) -> None:
    timer = client.start("tools/call", name="timer", arguments={"seconds": 2})
    said = [client.heard("notifications/progress")]

    line.cut()
    said += client.until_done(timer)

    assert progress(said) == ["2 s to go", "1 s to go"]
    assert said[-1]["result"]["content"][0]["text"] == "2 s are over."


def test_a_call_goes_on_where_the_server_closed_its_stream(kind: Kind, site: RunningSite) -> None:
    with connected(kind, site, "conformance") as client:
        result = client.call("test_reconnection")

    assert result["content"][0]["text"] == "The stream was closed and taken up again."


def progress(said: list[Json]) -> list[str]:
    heard = [line for line in said if line.get("heard") == "notifications/progress"]
    return [line["params"]["message"] for line in heard]
