"""Addresses: which belong to the internet, and which URLs are secure."""

from __future__ import annotations

from django_mcp.outbound import is_public, is_secure
from tests.rows import rows
from tests.spec import spec


@rows(
    "address",
    [
        "64:ff9b:1::a00:1",
        "64:ff9b:1:ffff::1",
        "64:ff9b::a00:1",
        "fec0::1",
        "feff::1",
        "::10.0.0.1",
        "::93.184.215.14",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:224.0.0.1",
        "2002:a00:1::1",
        "2002:e000:1::1",
        "2001:0:a00:1::f5ff:fffe",
        "ff02::1",
        "ff0e::1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "2001:db8::1",
        "224.0.0.1",
        "239.1.1.1",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "240.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "localhost",
    ],
)
def test_reserved_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@rows(
    "address",
    ["93.184.215.14", "2606:2800:21f:cb07::1", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"],
)
def test_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@spec("AUTH-RS-33")
@rows(
    ("url", "expected"),
    [
        ("https://issuer.example", True),
        ("http://localhost:8000/a", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:9000", True),
        ("http://issuer.example", False),
        ("http://localhost.evil.example", False),
        ("http://0.0.0.0", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://a b", False),
        ("https://a:port", False),
        ("https://user@issuer.example", False),
        ("issuer.example", False),
    ],
)
def test_only_encrypted_or_local_urls_are_secure(url: str, expected: bool) -> None:
    assert is_secure(url) is expected
