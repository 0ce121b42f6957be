"""The pages that connect clients: each shows every configuration of its client, and its faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from django_mcp.management.client_configuration import CLIENTS as CONFIGURED
from django_mcp.management.discovery import CLIENTS as DISCOVERING
from tests.docs.examples import ROOT, blocks, commands
from tests.rows import rows

FOLDER = ROOT / "docs" / "how-to" / "connect"
WITHOUT_PAGE = {"opencode", "inspector"}
"""``mcp_config`` prints all that there is to say of them."""
OPTIONS: Sequence[Sequence[str]] = (
    ("--transport", "http"),
    ("--transport", "http", "--token"),
    ("--transport", "stdio"),
)
PAGES = {
    "claude": ["claude-desktop", "claude-code"],
    "chatgpt": [],
    "cursor": ["cursor"],
    "vscode": ["vscode"],
    "codex": ["codex"],
}
"""The clients of ``mcp_config`` on each page, whose name is that of a client of ``mcp_doctor``."""


def configurations(page: Path) -> Iterator[list[str]]:
    """The arguments of mcp_config wherever its output is shown."""
    for block in blocks(page):
        for words, shown in commands(block) if block.label == "console" else ():
            if words[2] == "mcp_config" and shown:
                yield words[3:]


@rows("name", PAGES)
def test_page_shows_each_configuration_of_its_clients(name: str) -> None:
    shown = [*configurations(FOLDER / f"{name}.md")]
    expected = [
        ["--client", client, *options]
        for client in PAGES[name]
        for options in OPTIONS
        # Without a token, its configuration is the URL.
        if (client, options) != ("claude-desktop", OPTIONS[0])
    ]
    assert sorted(shown) == sorted(expected)


@rows("name", PAGES)
def test_page_names_the_command_that_plays_its_client(name: str) -> None:
    assert f"mcp_doctor --client {name}`" in (FOLDER / f"{name}.md").read_text()


def test_every_client_has_a_page() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == {*PAGES}
    assert {each for clients in PAGES.values() for each in clients} | WITHOUT_PAGE == {*CONFIGURED}
    assert {*PAGES} <= {*DISCOVERING}
