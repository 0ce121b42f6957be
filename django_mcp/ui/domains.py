"""The domains that hosts give to views, where a host computes them."""

from __future__ import annotations

from hashlib import sha256


def claude_domain(url: str) -> str:
    """Return the domain of views in Claude, for the exact URL that users enter as the connector.

    Claude shows no view with any other domain, and has one of its own for views without.
    """
    return f"{sha256(url.encode()).hexdigest()[:32]}.claudemcpcontent.com"
