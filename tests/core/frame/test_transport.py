"""By what limits count callers."""

from __future__ import annotations

import pytest

from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.transport import caller_key
from django_mcp.frame import HttpTransport, StdioTransport

ANONYMOUS = Principal(scheme="anonymous")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("/run/shop.sock", "/run/shop.sock"),
        ("x" * 1000, "x" * 100 + "..."),
        (None, ""),
    ],
)
def test_anonymous_caller_is_counted_by_address(address: str | None, expected: str) -> None:
    key = caller_key(ANONYMOUS, HttpTransport(remote_ip=address))
    assert key == f"anonymous: {expected}"


def test_identified_caller_is_counted_by_principal_alone() -> None:
    principal = Principal(scheme="token", subject="7")
    assert caller_key(principal, HttpTransport(remote_ip="192.0.2.1")) == "token:7"


def test_caller_over_stdio_has_no_address() -> None:
    assert caller_key(ANONYMOUS, StdioTransport()) == "anonymous:"
    assert caller_key(ANONYMOUS, None) == "anonymous:"
