"""Clients which lose the connection in the middle of a call take it up where it broke."""

from collections.abc import Iterator

import pytest

from tests.clients.breakable import BreakableLine, breakable_line
from tests.clients.conftest import KINDS, Kind, connected
from tests.clients.real_client import RealClient
from tests.running_site import RunningSite

resuming = pytest.mark.parametrize(
    "kind",
    [name for name, kind in KINDS.items() if kind.sessions and kind.over == "http"],
    indirect=True,
)


@pytest.fixture
def line(site: RunningSite) -> Iterator[BreakableLine]:
    with breakable_line(site.port) as line:
        yield line


@resuming
def test_a_call_goes_on_where_its_stream_broke(
    kind: Kind, site: RunningSite, line: BreakableLine
) -> None:
    with connected(kind, site, port=line.port) as client:
        timer = client.start("tools/call", name="timer", arguments={"seconds": 2})
        said = [client.heard("notifications/progress")]

        line.cut()
        said += client.until_done(timer)

    heard = [each for each in said if each.get("heard") == "notifications/progress"]
    assert [each["params"]["message"] for each in heard] == ["2 s to go", "1 s to go"]
    assert said[-1]["result"]["content"][0]["text"] == "2 s are over."


@resuming
def test_a_call_goes_on_where_the_server_closed_its_stream(suite_client: RealClient) -> None:
    result = suite_client.call("test_reconnection")

    assert result["content"][0]["text"] == "The stream was closed and taken up again."
