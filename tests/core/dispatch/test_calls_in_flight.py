"""Calls in flight are bounded in one process, and by caller."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch.calls_in_flight import CallsInFlight
from django_mcp.core.frame.exchange import Exchange
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.core.protocol.errors import ServerBusy, TooManyRequests
from tests.constants import SetConstants


def call(subject: str = "", address: str = "10.0.0.1") -> Exchange:
    made = Exchange()
    made.principal = Principal(scheme="token", subject=subject)
    made.transport = HttpTransport(remote_ip=address)
    return made


async def begin(in_flight: CallsInFlight, *calls: Exchange, max_in_flight: int = 2) -> None:
    for each in calls:
        in_flight.begin(each, max_in_flight, asyncio.get_running_loop())


@pytest.mark.parametrize(
    ("present", "further"),
    [
        (("ann", "10.0.0.1"), ("ann", "10.0.0.2")),
        (("", "10.0.0.1"), ("", "10.0.0.1")),
        (("", "2001:db8:1:2::1"), ("", "2001:db8:1:2:a:b:c:d")),
        (("", "10.0.0.1"), ("", "::ffff:10.0.0.1")),
    ],
    ids=["principal", "address", "IPv6 network", "IPv4 address in IPv6"],
)
async def test_calls_of_one_caller_are_bounded(
    present: tuple[str, str], further: tuple[str, str]
) -> None:
    in_flight = CallsInFlight()
    first = call(*present)
    await begin(in_flight, first, call(*present))
    with pytest.raises(TooManyRequests):
        await begin(in_flight, call(*further))
    in_flight.end(first)
    await begin(in_flight, call(*further))


@pytest.mark.parametrize("other", [("bob", "10.0.0.1"), ("", "10.0.0.1")])
async def test_calls_of_other_callers_are_not_affected(other: tuple[str, str]) -> None:
    in_flight = CallsInFlight()
    await begin(in_flight, call("ann"), call("ann"), call(*other))


async def test_anonymous_callers_of_different_addresses_are_counted_apart() -> None:
    in_flight = CallsInFlight()
    await begin(in_flight, call(), call(), call("", "10.0.0.2"), call("", "10.0.0.2"))


async def test_anonymous_callers_of_different_ipv6_networks_are_counted_apart() -> None:
    in_flight = CallsInFlight()
    await begin(in_flight, *(call("", f"2001:db8:1:{net}::1") for net in (1, 1, 2, 2)))


@pytest.mark.parametrize("per_process", [1, 4])
async def test_calls_of_all_callers_are_bounded(
    per_process: int, set_constants: SetConstants
) -> None:
    set_constants(MAX_IN_FLIGHT_PER_PROCESS=per_process)
    in_flight = CallsInFlight()
    calls = [call(str(number)) for number in range(per_process)]
    await begin(in_flight, *calls)
    with pytest.raises(ServerBusy):
        await begin(in_flight, call("zoe"))
    for each in calls:
        in_flight.end(each)
    await begin(in_flight, call("zoe"))
