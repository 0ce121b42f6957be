"""The commands of docs/how-to/deploy.md, for the servers that tests install.

``servers`` uses its configuration of uWSGI and mod_wsgi, which ``test_servers`` runs.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.http_client import result
from tests.processes import server
from tests.wsgi import servers
from tests.wsgi.servers import environment

PAGE = servers.PAGE.read_text()
PROCFILE = [line.removeprefix("web: ") for line in PAGE.splitlines() if line.startswith("web: ")]
COMMANDS = [line[2:] for line in PAGE.splitlines() if line.startswith("$ ")] + PROCFILE
MODULES = {"waitress-serve": "waitress"}


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_page_serves_the_site(line: str, tmp_path: Path) -> None:
    program, *options = shlex.split(servers.replaced(line))
    command = [MODULES.get(program, program), *options]
    with server(command, environment=environment(tmp_path)) as running:
        assert result(running.port, "add", a=1, b=2) == 3


def test_page_has_commands() -> None:
    assert len(COMMANDS) == 5
