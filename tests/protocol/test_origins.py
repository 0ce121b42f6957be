"""Which origins may talk to us, and which hosts are ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.protocol import origins

OURS = ["example.com", ".example.org", "127.0.0.1", "[::1]", "Localhost"]

# origin, Host, scheme, allowed
BY_HOST = [
    (None, "example.com", "https", True),
    (None, "evil.example", "https", True),
    ("https://example.com", "example.com", "https", True),
    ("HTTPS://EXAMPLE.COM", "example.com", "https", True),
    ("https://example.com:443", "example.com", "https", True),
    ("https://example.com:9000", "example.com", "https", True),
    ("https://example.com.", "example.com", "https", True),
    ("http://example.com", "example.com", "http", True),
    ("https://example.com", "example.com", "http", True),
    ("http://example.com", "example.com", "https", False),
    ("https://example.org", "example.com", "https", True),
    ("https://a.b.example.org", "example.com", "https", True),
    ("https://a.example.com", "example.com", "https", False),
    ("https://notexample.org", "example.com", "https", False),
    ("https://example.com.evil.test", "example.com", "https", False),
    ("http://127.0.0.1:6274", "127.0.0.1:8000", "http", True),
    ("http://localhost:6274", "127.0.0.1:8000", "http", True),
    ("http://[::1]:6274", "[::1]:8000", "http", True),
    ("http://evil.example.com", "evil.example.com", "http", False),
    ("chrome-extension://example.com", "example.com", "https", False),
]

MALFORMED = [
    "", "null", "NULL", "*", "example.com", "//example.com", "https://", "https://.",
    "https:example.com",
    "https://example.com/", "https://example.com/x", "https://example.com?x", "https://example.com#x",
    "https://user@example.com", "https://example.com:", "https://example.com:x",
    "https://example.com:65536", "https://example.com:999999", "https://example.com https://a.test",
    "https://example.com,https://a.test", " https://example.com", "https://example.com\n",
    "https://example.com\0", "https://exam\u212ble.com", "https://\u212aelvin.test", "https://[::1",
    "https://::1", "https://[example.com]", "1https://example.com", "https://" + "a" * 400,
]  # fmt: skip


def allows(
    origin: str | None,
    host: str = "example.com",
    scheme: str = "https",
    hosts: Sequence[str] = (),
    listed: Sequence[str] = (),
) -> bool:
    return origins.allows(
        origin, host=host, scheme=scheme, allowed_hosts=hosts, allowed_origins=listed
    )


@pytest.mark.parametrize(("origin", "host", "scheme", "allowed"), BY_HOST)
def test_an_origin_on_one_of_our_hosts_is_allowed(
    origin: str | None, host: str, scheme: str, allowed: bool
) -> None:
    assert allows(origin, host, scheme, OURS) is allowed


@pytest.mark.parametrize("origin", MALFORMED)
def test_a_malformed_origin_is_refused_whatever_is_allowed(origin: str) -> None:
    assert not allows(origin, hosts=["*", *OURS], listed=["*", origin])


# origin, Host, scheme, allowed, where ALLOWED_HOSTS is ["*"]
ANY_HOST = [
    ("https://example.com", "example.com", "https", True),
    ("https://example.com", "EXAMPLE.com:443", "https", True),
    ("http://localhost:8000", "localhost:8000", "http", True),
    ("http://localhost:3000", "localhost:8000", "http", False),
    ("https://example.com:8443", "example.com", "https", False),
    ("https://evil.test", "example.com", "https", False),
    ("https://example.com", "example.com", "http", False),
    ("https://example.com", "", "https", False),
    ("https://example.com", "exa mple.com", "https", False),
    ("https://example.com", "example.com" + "x" * 400, "https", False),
]


@pytest.mark.parametrize(("origin", "host", "scheme", "allowed"), ANY_HOST)
def test_a_star_for_hosts_lets_in_only_the_place_the_request_was_sent_to(
    origin: str, host: str, scheme: str, allowed: bool
) -> None:
    assert allows(origin, host, scheme, ["*"]) is allowed


# entry of ALLOWED_ORIGINS, origin, allowed
LISTED = [
    ("https://app.test", "https://app.test", True),
    ("https://APP.test:443", "https://app.TEST", True),
    ("https://app.test", "http://app.test", False),
    ("https://app.test", "https://app.test:8443", False),
    ("https://app.test:8443", "https://app.test:8443", True),
    ("https://app.test", "https://a.app.test", False),
    ("https://*.app.test", "https://a.app.test", True),
    ("https://*.app.test", "https://a.b.app.test:443", True),
    ("https://*.app.test", "https://app.test", False),
    ("https://*.app.test", "https://evilapp.test", False),
    ("https://*.app.test", "http://a.app.test", False),
    ("https://*.app.test:8443", "https://a.app.test:8443", True),
    ("https://*.app.test:8443", "https://a.app.test", False),
    ("http://app.test", "http://app.test", True),
    ("vscode-webview://abc123", "vscode-webview://ABC123", True),
    ("*", "https://anything.test", True),
    ("*", "http://anything.test", True),
    ("https://", "https://app.test", False),
    ("https://*", "https://app.test", False),
    ("https://*.", "https://app.test", False),
    ("app.test", "https://app.test", False),
]


@pytest.mark.parametrize(("entry", "origin", "allowed"), LISTED)
def test_a_listed_origin_is_allowed_wherever_it_asks(
    entry: str, origin: str, allowed: bool
) -> None:
    assert allows(origin, listed=["https://other.test", entry]) is allowed


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("*", True),
        ("https://app.test", True),
        ("https://*.app.test", True),
        ("http://localhost:3000", True),
        ("app.test", False),
        ("https://app.test/", False),
        ("https://*", False),
        ("https://a.*.test", False),
        ("null", False),
        ("", False),
    ],
)
def test_what_can_stand_in_the_list_of_origins(text: str, fits: bool) -> None:
    assert origins.is_pattern(text) is fits


# Host header, ALLOWED_HOSTS, allowed
HOSTS = [
    ("example.com", ["example.com"], True),
    ("EXAMPLE.com:8000", ["example.COM"], True),
    ("example.com.", ["example.com"], True),
    ("a.example.com", ["example.com"], False),
    ("a.example.com", [".example.com"], True),
    ("example.com", [".example.com"], True),
    ("notexample.com", [".example.com"], False),
    ("[::1]:8000", ["[::1]"], True),
    ("[::1]", ["::1"], False),
    ("127.0.0.1:8000", ["127.0.0.1"], True),
    ("anything.test:1", ["*"], True),
    ("example.com", [], False),
    ("example.com", [""], False),
    ("", ["*"], False),
    (".", ["*"], False),
    ("example.com:", ["*"], False),
    ("example.com:x", ["*"], False),
    ("example.com:70000", ["*"], False),
    ("exam_ple.com", ["*"], False),
    ("user@example.com", ["*"], False),
    ("example.com/x", ["*"], False),
    ("example.com\n", ["*"], False),
    ("\u212aelvin.test", ["*"], False),
    ("a" * 400, ["*"], False),
]


@pytest.mark.parametrize(("host", "allowed_hosts", "allowed"), HOSTS)
def test_hosts_are_read_as_django_reads_them(
    host: str, allowed_hosts: list[str], allowed: bool
) -> None:
    assert origins.host_allowed(host, allowed_hosts) is allowed


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_no_text_is_let_in_by_accident(origin: str, host: str) -> None:
    assert not allows(origin, host, hosts=OURS)
    assert not origins.host_allowed(host, ["example.com"])


@settings(max_examples=100, deadline=None)
@given(st.from_regex(r"https?://[a-z.:@/\[\]*-]{1,12}", fullmatch=True))
def test_whatever_is_refused_as_malformed_cannot_be_listed_either(origin: str) -> None:
    assert allows(origin, listed=["*"]) is (origins.parse(origin) is not None)
