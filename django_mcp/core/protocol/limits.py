"""Limits of messages from clients, and of the parts that errors and log lines repeat.

Callers without a name are counted by their network.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network

MAX_IDENTIFIER = 256
"""Characters of a request id, a progress token, a name, a log level or a protocol version."""
MAX_URI = 2_048
"""Characters of the URI of a resource."""
MAX_CURSOR = 4_096
"""Characters of a signed value that a client sends back: a cursor, the id of a request."""
MAX_CLIENT = 16_384
"""Bytes of JSON about a client: clientInfo, capabilities, _meta."""
MAX_VALUES = 100_000
"""JSON values of a message: processing one costs up to a microsecond and 200 bytes."""
MAX_INTEGER = 2**63
"""Integers are less than it, and at least its negative, as in most languages."""
MAX_DIGITS = 18
"""Digits of a number in a header, a form or an id."""
MAX_BATCH = 500
"""Messages of a batch."""
MAX_QUOTED = 100
"""Characters of a client's text which are repeated in an error or a log line."""


def too_long(name: str, most: int) -> str:
    """The error for text of more than ``most`` characters."""
    return f"{name} may have at most {most} characters"


def natural(text: str) -> int | None:
    """The number in ``text``, or None without one: ``int`` fails for "²", and for 5,000 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def cut(text: str) -> str:
    """``text`` as an error repeats it: cut to MAX_QUOTED."""
    return f"{text[:MAX_QUOTED]}..." if len(text) > MAX_QUOTED else text


def quoted(text: str) -> str:
    """``text`` for an error or a log line: escaped, on one line, and cut to MAX_QUOTED."""
    return f"{text[:MAX_QUOTED]!r}..." if len(text) > MAX_QUOTED else repr(text)


def shown(text: str) -> str:
    """``text`` for a field of a log record: as it is, or quoted if it is long or unprintable."""
    return text if text.isprintable() and len(text) <= MAX_QUOTED else quoted(text)


@lru_cache(maxsize=512)
def network_of(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 one, which a single caller may have."""
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return cut(address)  # An IPv4 address, the path of a socket, or nothing.
    return str(parsed.ipv4_mapped or IPv6Network((parsed, 64), strict=False))
