"""The keys of ``_meta``: which an author may use, and which tell of a trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
KEY = re.compile(rf"(?:(?P<prefix>{LABEL}(?:\.{LABEL})*)/)?{NAME}")

OWNERS = frozenset({"mcp", "modelcontextprotocol"})
SPECIFIED = "io.modelcontextprotocol"
"""The prefix under which the specification and its official extensions name their own keys."""


def check_keys(meta: Mapping[str, Any]) -> None:
    """Raise ValueError for a key which is malformed, or reserved by the specification.

    An official extension may be spoken by hand, so what it names under its prefix passes.
    """
    for key in meta:
        matched = KEY.fullmatch(key) if isinstance(key, str) else None
        if matched is None:
            raise ValueError(
                f"{key!r} is no key of _meta: write a name of letters, digits and - _ . with, "
                'better, a prefix that is yours: "com.example/name"'
            )
        if _is_reserved(matched["prefix"] or ""):
            raise ValueError(f"The key {key!r} of _meta is reserved by the specification of MCP")


def check_extensions(extensions: Mapping[str, Any]) -> None:
    """Raise ValueError for an extension whose id or settings a client could not read (VER-05)."""
    check_keys(extensions)
    for identity, settings in extensions.items():
        if "/" not in identity.strip("/") or not isinstance(settings, Mapping):
            raise ValueError(
                f"{identity!r} is no extension: write {{'com.example/name': {{…its settings…}}}}"
            )


def _is_reserved(prefix: str) -> bool:
    """Whether a prefix is the specification's in any revision.

    One reserves every prefix in which an owner is followed by a label, a later one those whose
    second label is an owner.
    """
    labels = prefix.lower().split(".")
    followed = any(label in OWNERS for label in labels[:-1])
    return prefix != SPECIFIED and (followed or (len(labels) > 1 and labels[1] in OWNERS))


# Traces (W3C Trace Context and Baggage, whose fields these are).

TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def trace(meta: Any) -> dict[str, str]:
    """The trace that a request belongs to, as headers which pass it on; empty without one.

    A ``tracestate`` means nothing without a valid ``traceparent`` and is dropped (section 3.3).
    """
    told = meta if isinstance(meta, Mapping) else {}
    found = {name: told[name] for name in FIELDS if isinstance(told.get(name), str)}
    if not TRACEPARENT.fullmatch(found.get("traceparent", "")):
        return {name: value for name, value in found.items() if name == "baggage"}
    return found


FIELDS = ("traceparent", "tracestate", "baggage")
