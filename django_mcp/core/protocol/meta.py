"""The keys of ``_meta``: validation of an author's keys, and the keys of traces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
KEY = re.compile(rf"(?:(?P<prefix>{LABEL}(?:\.{LABEL})*)/)?{NAME}")

OWNERS = frozenset({"mcp", "modelcontextprotocol"})
SPECIFIED = "io.modelcontextprotocol"
"""The prefix of keys of the specification and its official extensions."""


def check_keys(meta: Mapping[str, Any]) -> None:
    """Raise ValueError for a key that is malformed or reserved by the specification.

    The keys of official extensions are allowed, because a handler may implement one.
    """
    for key in meta:
        matched = KEY.fullmatch(key) if isinstance(key, str) else None
        if matched is None:
            raise ValueError(
                f"{key!r} is no key of _meta: write a name of letters, digits and - _ . with, "
                'better, a prefix that is yours: "com.example/name"'
            )
        prefix = matched["prefix"] or ""
        labels = prefix.lower().split(".")
        # A label follows an owner, or the second label is one: revisions differ.
        follows_owner = any(label in OWNERS for label in labels[:-1])
        is_reserved = follows_owner or (len(labels) > 1 and labels[1] in OWNERS)
        if is_reserved and prefix != SPECIFIED:
            raise ValueError(f"The key {key!r} of _meta is reserved by the specification of MCP")


def check_extensions(extensions: Mapping[str, Any]) -> None:
    """Raise ValueError for an extension with an invalid id or invalid settings (VER-05)."""
    check_keys(extensions)
    for identity, settings in extensions.items():
        if "/" not in identity.strip("/") or not isinstance(settings, Mapping):
            raise ValueError(
                f"{identity!r} is no extension: write {{'com.example/name': {{…its settings…}}}}"
            )


# The fields of W3C Trace Context and W3C Baggage.
TRACE_FIELDS = ("traceparent", "tracestate", "baggage")
TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def trace(meta: Any) -> dict[str, str]:
    """Return the trace of a request as HTTP headers for further requests; empty if it has none.

    A ``tracestate`` is invalid without a valid ``traceparent`` and is dropped (section 3.3).
    """
    fields = meta if isinstance(meta, Mapping) else {}
    traced = {name: fields[name] for name in TRACE_FIELDS if isinstance(fields.get(name), str)}
    if not TRACEPARENT.fullmatch(traced.get("traceparent", "")):
        return {name: value for name, value in traced.items() if name == "baggage"}
    return traced
