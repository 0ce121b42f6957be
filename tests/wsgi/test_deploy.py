"""The lines of docs/how-to/deploy.md, under the servers that tests install.

``servers`` uses its configuration of uWSGI and mod_wsgi, which ``test_servers`` runs.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.http_client import connect, result
from tests.processes import ROOT, server
from tests.services.instances import running
from tests.services.workers import Nginx, nginx_around, nginx_binary
from tests.waiting import wait_until
from tests.wsgi import servers
from tests.wsgi.requests import sent_call
from tests.wsgi.servers import BIND, GUNICORN, environment

PAGE = servers.PAGE.read_text()
IN_CONSOLE = [shlex.split(line[2:]) for line in PAGE.splitlines() if line.startswith("$ ")]
IN_PROCFILE = [shlex.split(line) for line in re.findall(r"^web: (.+)$", PAGE, re.MULTILINE)]
IN_DOCKERFILE = [json.loads(line) for line in re.findall(r"^CMD (\[.+\])$", PAGE, re.MULTILINE)]
COMMANDS = IN_CONSOLE + IN_PROCFILE + IN_DOCKERFILE
MODULES = {"waitress-serve": "waitress"}
PROBES = re.findall(r"httpGet: \{path: ([^,]+), ", PAGE)
LOCATION = PAGE.partition("```nginx\n")[2].partition("```")[0]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_of_the_page_serves_the_site(words: list[str], tmp_path: Path) -> None:
    program, *options = map(servers.replaced, words)
    command = [MODULES.get(program, program), *options]
    with server(command, environment=environment(tmp_path)) as site:
        assert result(site.port, "add", a=1, b=2) == 3


def test_file_of_a_host_serves_the_site(tmp_path: Path) -> None:
    lines = servers.block("/var/www/mysite_wsgi.py").replace("/home/ann/mysite", str(ROOT))
    (tmp_path / "host.py").write_text(lines.replace("mysite.wsgi", "tests.wsgi.one_site"))
    command = ["gunicorn", *BIND, "--chdir", str(tmp_path), "host:application"]
    with server(command, environment=environment(tmp_path, PYTHONPATH="")) as site:
        assert result(site.port, "add", a=1, b=2) == 3


def test_probes_of_the_page_are_answered(tmp_path: Path) -> None:
    with (
        server(GUNICORN, environment=environment(tmp_path)) as site,
        connect(site.port) as client,
    ):
        assert [client.get(path).status_code for path in PROBES] == [200, 200]


@pytest.mark.skipif(nginx_binary() is None, reason="nginx is not installed")
def test_nginx_passes_on_events_as_they_are_sent(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with server(GUNICORN, environment=environment(tmp_path)) as site:
        proxy = Nginx(tmp_path, [])
        location = LOCATION.replace("127.0.0.1:8001", f"127.0.0.1:{site.port}")
        sites = f"server {{ listen 127.0.0.1:{proxy.port}; {location} }}"
        (tmp_path / "nginx.conf").write_text(nginx_around(sites))
        with running(proxy):
            assert result(proxy.port, "add", a=1, b=2) == 3
            with sent_call(proxy.port, "tick", ended=str(ended)) as client:
                assert client.recv(1)
                assert not ended.exists()
            wait_until(ended.exists)


def test_page_has_commands_and_probes() -> None:
    assert (len(COMMANDS), len(PROBES)) == (5, 2)
