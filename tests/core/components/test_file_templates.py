"""Templates of files do not lead outside their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_mcp import Server
from tests.memory_stores import configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]


@spec("isolation-19")
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("files://{+path}", "files://%2fetc%2fpasswd"),
        ("files://{+path}", "files:///etc/passwd"),
        ("files://{+path}", "files://%5cetc%5cpasswd"),
        ("one://{name}", "one://%2fetc%2fpasswd"),
        ("one://{name}", "one://a%2fb"),
        ("one://{name}", "one://c%3a%5cwindows"),
    ],
)
async def test_template_does_not_lead_outside_its_folder(template: str, uri: str) -> None:
    server = Server("files")
    opened: list[str] = []

    if "{+path}" in template:

        @server.resource(template)
        def read_path(path: str) -> str:
            opened.append(path)
            return "read"
    else:

        @server.resource(template)
        def read_name(name: str) -> str:
            opened.append(name)
            return "read"

    peer = AsgiClient(server)
    response = await peer.post(peer.request("resources/read", {"uri": uri}))

    assert opened == []
    assert response.error["code"] == -32602
    assert "not found" in response.error["message"].lower()


def test_how_to_on_files_shows_safe_joining() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    pages = [page.read_text() for page in docs.rglob("*.md")]

    assert [page for page in pages if "safe_join" in page or "is_relative_to" in page]
