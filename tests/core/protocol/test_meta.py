"""The keys of ``_meta``, and the trace context."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.core.protocol import meta
from tests.rows import rows
from tests.spec import spec


@spec("META-02")
@rows(
    "key",
    [
        "",
        "a",
        "9",
        "progressToken",
        "two-words_and.dots",
        "ui/resourceUri",
        "com.example/key",
        "com.ex-ample2/k",
        "com.example/",
        "com.example.mcp/key",
        "mcp/key",
        "io.modelcontextprotocol/ui",
    ],
)
def test_meta_key_with_or_without_a_prefix_is_accepted(key: str) -> None:
    meta.check_keys({key: 1})


@spec("META-03", "META-07", "2026/META-07")
@rows(
    "key",
    [
        "-a",
        "a-",
        ".a",
        "a b",
        "ä",
        "/key",
        "9com/key",
        "com./key",
        "com.-x/key",
        "com.x-/key",
        "com/key/more",
        "com.example/-",
        1,
    ],
)
def test_malformed_meta_key_is_rejected(key: Any) -> None:
    with pytest.raises(ValueError, match="is no key of _meta"):
        meta.check_keys({key: 1})


@spec("META-05", "META-06", "2026/META-07")
@rows(
    "key",
    [
        "dev.mcp/key",
        "com.mcp.tools/key",
        "mcp.dev/key",
        "tools.mcp.com/key",
        "org.modelcontextprotocol.api/key",
        "com.MCP/key",
    ],
)
def test_meta_key_with_a_reserved_prefix_is_rejected(key: str) -> None:
    with pytest.raises(ValueError, match="is reserved"):
        meta.check_keys({key: 1})


def test_extension_with_a_prefixed_id_and_settings_is_accepted() -> None:
    meta.check_extensions({"com.example/mine": {}, "io.modelcontextprotocol/ui": {"a": 1}})


@rows(
    "extensions",
    [{"mine": {}}, {"com.example/": {}}, {"com.mcp.tools/x": {}}, {"com.example/mine": True}],
)
def test_malformed_extension_is_rejected(extensions: Any) -> None:
    with pytest.raises(ValueError, match=r"is no extension|is reserved"):
        meta.check_extensions(extensions)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@spec("2026/META-09")
@rows(
    ("received", "found"),
    [
        (None, []),
        ({}, []),
        ({"traceparent": PARENT}, ["traceparent"]),
        ({"traceparent": PARENT, "tracestate": "a=1"}, ["traceparent", "tracestate"]),
        ({"traceparent": PARENT, "baggage": "a=1", "other": "b"}, ["traceparent", "baggage"]),
        ({"tracestate": "a=1", "baggage": "b=2"}, ["baggage"]),
        ({"traceparent": PARENT.upper(), "tracestate": "a=1"}, []),
        ({"traceparent": "00-" + "0" * 32 + PARENT[35:]}, []),
        ({"traceparent": PARENT[:36] + "0" * 16 + "-01"}, []),
        ({"traceparent": "ff" + PARENT[2:]}, []),
        ({"traceparent": 1, "tracestate": ["a"]}, []),
    ],
)
def test_trace_context_is_returned_unchanged_and_invalid_parts_are_dropped(
    received: Any, found: list[str]
) -> None:
    assert meta.trace(received) == {name: received[name] for name in found}
