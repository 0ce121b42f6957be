"""What the pages of the documentation tell administrators to run, with the ports of a test."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.docs.examples import ROOT, blocks, commands

PROXY = ROOT / "docs" / "how-to" / "reverse-proxy.md"
WORKERS = ROOT / "docs" / "how-to" / "multiple-workers.md"
SITE_PAGE = ROOT / "docs" / "how-to" / "production.md"
SITE = "tests.services.site.asgi:application"
"""In place of the application of the pages."""
PORTS = ("127.0.0.1:8001", "127.0.0.1:8002")
HOST = "shop.example.com"


UPSTREAM = re.compile(r"^upstream mysite \{.*?^\}\n", re.MULTILINE | re.DOTALL)


def configuration(label: str, ports: Sequence[int]) -> str:
    """The configuration of a proxy, for workers on these ports."""
    (text,) = (block.text for block in blocks(PROXY) if block.label == label)
    if label == "nginx":  # The rest of it is that of the whole site.
        text = UPSTREAM.sub(text, configuration_of_site())
    return with_ports(text, ports)


def configuration_of_site() -> str:
    """The configuration of nginx for workers behind one socket."""
    (text,) = (block.text for block in blocks(SITE_PAGE) if block.label == "nginx")
    return text


def with_ports(text: str, ports: Sequence[int]) -> str:
    for shown, port in zip(PORTS, ports, strict=False):
        assert shown in text
        text = text.replace(shown, f"127.0.0.1:{port}")
    return text


def command(server: str, port: int) -> list[str]:
    """The command of an ASGI server which serves on this port."""
    (words,) = (each for each in _commands(WORKERS) if each[0] == server and "8001" in str(each))
    return of_site(words, port)


def command_of_socket(server: str) -> list[str]:
    """The command of an ASGI server which serves on the socket of systemd."""
    if server == "uvicorn":
        return of_site(shlex.split(unit("mysite@.service")["ExecStart"]))
    (words,) = (
        each for each in _commands(WORKERS) if each[0] == server and "8001" not in str(each)
    )
    return of_site(words)


def of_site(words: Sequence[str], port: int | None = None) -> list[str]:
    """A command with the programs, the application and the port of the test."""
    words = [SITE if each == "mysite.asgi:application" else each for each in words]
    words = [each.replace("8001", str(port)) for each in words] if port is not None else words
    return [f"{sys.prefix}/bin/{Path(words[0]).name}", *words[1:]]


def _commands(page: Path) -> Iterator[list[str]]:
    for block in blocks(page):
        if block.label == "console":
            for words, _ in commands(block):
                yield words


def unit(name: str) -> Mapping[str, str]:
    """The keys of a systemd unit, by its file name in the first line."""
    return dict(re.findall(r"^(\w+)=(.*)$", units()[name], re.MULTILINE))


def units() -> Mapping[str, str]:
    """The texts of the systemd units, by their file names."""
    texts = [block.text for block in blocks(SITE_PAGE) if block.label == "ini"]
    return {re.match(r"# /etc/systemd/system/(\S+)\n", text)[1]: text for text in texts}  # type: ignore[index]
