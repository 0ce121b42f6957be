"""Allowed origins and hosts."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol import origins
from tests.rows import rows

OUR_HOSTS = ["example.com", ".example.org", "127.0.0.1", "[::1]", "Localhost"]

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


@rows(("origin", "host", "scheme", "allowed"), BY_HOST)
def test_origin_is_allowed_only_on_an_allowed_host(
    origin: str | None, host: str, scheme: str, allowed: bool
) -> None:
    assert allows(origin, host, scheme, OUR_HOSTS) is allowed


@rows("origin", MALFORMED)
def test_malformed_origin_is_rejected_even_with_wildcards(origin: str) -> None:
    assert not allows(origin, hosts=["*", *OUR_HOSTS], listed=["*", origin])


# origin, Host, scheme, allowed if ALLOWED_HOSTS is ["*"]
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


@rows(("origin", "host", "scheme", "allowed"), ANY_HOST)
def test_wildcard_hosts_allow_only_same_origin_requests(
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


@rows(("entry", "origin", "allowed"), LISTED)
def test_listed_origin_is_allowed_on_any_host(entry: str, origin: str, allowed: bool) -> None:
    assert allows(origin, listed=["https://other.test", entry]) is allowed


@rows(
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
def test_is_pattern_accepts_only_valid_allowed_origins_entries(text: str, fits: bool) -> None:
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


@rows(("host", "allowed_hosts", "allowed"), HOSTS)
def test_host_is_matched_like_django_allowed_hosts(
    host: str, allowed_hosts: list[str], allowed: bool
) -> None:
    assert origins.host_allowed(host, allowed_hosts) is allowed


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_arbitrary_text_is_never_allowed_as_origin_or_host(origin: str, host: str) -> None:
    assert not allows(origin, host, hosts=OUR_HOSTS)
    assert not origins.host_allowed(host, ["example.com"])


@settings(max_examples=100, deadline=None)
@given(st.from_regex(r"https?://[a-z.:@/\[\]*-]{1,12}", fullmatch=True))
def test_wildcard_entry_allows_exactly_the_well_formed_origins(origin: str) -> None:
    assert allows(origin, listed=["*"]) is (origins.parse(origin) is not None)
