"""HTTP/1.1 requests as bytes, which cost a client less than an HTTP library."""

from __future__ import annotations

from collections.abc import Mapping


def request(
    port: int, path: str, headers: Mapping[str, str], body: bytes, *, verb: str = "POST"
) -> bytes:
    """Return a request for a persistent connection."""
    whole = {"host": f"127.0.0.1:{port}", **headers, "content-length": str(len(body))}
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in whole.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
