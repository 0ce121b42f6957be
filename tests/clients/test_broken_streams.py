"""Real clients resume a stream after the connection breaks during a call."""

from collections.abc import Iterator

import pytest

from tests.clients.conftest import Kind, connected, kinds
from tests.clients.proxy import BreakableProxy, breakable_proxy
from tests.clients.real_client import RealClient
from tests.running_site import RunningSite

with_resumable_streams = pytest.mark.parametrize(
    "kind", kinds(lambda kind: kind.sessions and kind.over == "http"), indirect=True
)


@pytest.fixture
def proxy(site: RunningSite) -> Iterator[BreakableProxy]:
    with breakable_proxy(site.port) as proxy:
        yield proxy


@with_resumable_streams
def test_call_resumes_after_its_connection_is_cut(
    kind: Kind, site: RunningSite, proxy: BreakableProxy
) -> None:
    with connected(kind, site, port=proxy.port) as client:
        timer = client.start("tools/call", name="timer", arguments={"seconds": 2})
        lines = [client.next_notification("notifications/progress")]

        proxy.cut()
        lines += client.until_done(timer)

    notified = [each for each in lines if each.get("notification") == "notifications/progress"]
    assert [each["params"]["message"] for each in notified] == ["2 s to go", "1 s to go"]
    assert lines[-1]["result"]["content"][0]["text"] == "2 s are over."


@with_resumable_streams
def test_call_resumes_after_the_server_closes_its_stream(suite_client: RealClient) -> None:
    result = suite_client.call("test_reconnection")

    assert result["content"][0]["text"] == "The stream was closed and taken up again."
