"""Files as clients send them: by the URL of a host, or in a data: URL."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from tests.outbound.conftest import Host

LARGE = b"0123456789abcdef" * (3 * 1024 * 1024 // 16)
"""3 MB: more than fits into memory by Django's settings, or into a message."""


def inline(content: bytes, name: str | None = None, media_type: str = "") -> dict[str, Any]:
    """Return a file in a data: URL."""
    url = f"data:{media_type};base64,{b64encode(content).decode()}"
    return {
        "download_url": url,
        "file_id": "file-1",
        **({} if name is None else {"file_name": name}),
    }


def of_host(host: Host, **members: str) -> dict[str, str]:
    """Return a file of a host, by a URL with a signature."""
    return {"download_url": f"{host.url}?sig=secret", "file_id": "file-1", **members}


def serve(host: Host, content: bytes, media_type: str = "text/csv", *, length: bool = True) -> None:
    """Let a host answer with a file."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nConnection: close\r\n"
    if length:
        head += f"Content-Length: {len(content)}\r\n"
    answer = f"{head}\r\n".encode() + content
    host.answer = lambda connection, _: connection.sendall(answer)
