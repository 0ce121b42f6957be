"""The commands of docs/how-to/deploy.md, for the servers that tests install."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from tests.processes import server
from tests.wsgi.test_servers import environment, result

PAGE = (ROOT / "docs/how-to/deploy.md").read_text()
PROCFILE = [line.removeprefix("web: ") for line in PAGE.splitlines() if line.startswith("web: ")]
COMMANDS = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")] + PROCFILE
MODULES = {"waitress-serve": "waitress"}
REPLACED = {
    "127.0.0.1:8001": "127.0.0.1:{port}",
    "0.0.0.0:$PORT": "127.0.0.1:{port}",
    "mysite.wsgi:application": "tests.wsgi.one_site:application",
    "mysite.asgi:application": "tests.wsgi.one_site:asgi_application",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_page_serves_the_site(line: str, tmp_path: Path) -> None:
    for written, used in REPLACED.items():
        line = line.replace(written, used)
    program, *options = shlex.split(line)
    command = [MODULES.get(program, program), *options]
    with server(command, environment=environment(tmp_path)) as running:
        assert result(running.port, "add", a=1, b=2) == 3


def test_page_has_commands() -> None:
    assert len(COMMANDS) == 5
