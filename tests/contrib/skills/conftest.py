"""A folder of skills, and a server that serves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from pytest_django import Settings

from django_mcp import Server
from django_mcp.contrib.skills import finding
from django_mcp.contrib.skills.declaration import SKILLS


class Folder:
    """SKILLS_DIRS of the test. What is written here is found at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        finding.find.cache_clear()
        return file

    def skill(self, path: str, body: str = "Do it.\n", **fields: str) -> Path:
        """Write a SKILL.md; further fields of its front matter are YAML."""
        name = path.rpartition("/")[2]
        written = {"name": name, "description": f"How to do {name}", **fields}
        lines = "".join(f"{field}: {value}\n" for field, value in written.items())
        return self.write(f"{path}/SKILL.md", f"---\n{lines}---\n{body}")


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without declarations, and without servers that serve skills."""
    monkeypatch.setattr(SKILLS, "declarations", {})
    monkeypatch.setattr(SKILLS, "_servers", WeakSet())


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Folder:
    root = tmp_path / "skills"
    root.mkdir()
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SKILLS_DIRS": [root]}
    return Folder(root)


@pytest.fixture
def server() -> Server:
    return Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])


async def uris(client: Any) -> list[str]:
    """The URIs of the skills that a client is listed."""
    return [entry["uri"] for entry in (await client.request("skills/list", {}))["skills"]]
