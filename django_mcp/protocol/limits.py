"""Limits of what a client may send, and of how much of it an error or a log line repeats."""

from __future__ import annotations

MAX_IDENTIFIER = 256
"""Characters of a request id, a progress token, a name, a log level or a protocol version."""
MAX_URI = 2_048
"""Characters of the URI of a resource."""
MAX_CURSOR = 2_048
"""Characters of a cursor."""
MAX_CLIENT = 16_384
"""Bytes of JSON of what a client says about itself: clientInfo, capabilities, _meta."""
MAX_VALUES = 100_000
"""JSON values of a message, unless the site says otherwise."""
MAX_INTEGER = 2**63
"""Integers are less than it, and at least its negative, as in most languages."""
MAX_BATCH = 500
"""Messages of a batch."""
MAX_QUOTED = 100
"""Characters of a client's text which are repeated in an error or a log line."""


def quoted(text: str) -> str:
    """``text`` for an error or a log line: escaped, on one line, and cut to MAX_QUOTED."""
    cut = text[:MAX_QUOTED]
    return f"{cut!r}..." if len(text) > MAX_QUOTED else repr(cut)
