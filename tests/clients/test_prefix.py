"""The official Python SDK logs in below a prefix, which nginx removes and uvicorn adds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients.conftest import Command
from tests.clients.oauth import flow
from tests.clients.oauth.pages import client_pages
from tests.clients.saved_tokens import check_login_and_refresh, python_sdk
from tests.processes import answers, free_port, server
from tests.services.workers import nginx_around, nginx_binary
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

UVICORN = ["uvicorn", "--port", "{port}", "--root-path", "/app", "example_site.asgi:application"]
# As docs/how-to/reverse-proxy.md says.
NGINX = """
upstream mysite {{ server 127.0.0.1:{upstream}; }}
server {{
    listen 127.0.0.1:{port};
    proxy_set_header Host $http_host;
    proxy_buffering off;
    location /app/ {{ proxy_pass http://mysite/; }}
    location = /.well-known/oauth-protected-resource/app/mcp {{ proxy_pass http://mysite; }}
    location = /.well-known/oauth-authorization-server/app {{ proxy_pass http://mysite; }}
    location = /token {{ proxy_pass http://mysite; }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[int]:
    """Run nginx in front of a server that it gives paths without the prefix; return its port."""
    binary = nginx_binary()
    assert binary is not None, "Install nginx"
    port = free_port()
    configuration = nginx_around(NGINX.format(port=port, upstream=upstream))
    (folder / "nginx.conf").write_text(configuration)
    command = [binary, "-p", str(folder), "-c", "nginx.conf", "-e", "log"]
    process = subprocess.Popen(command)
    wait_until(lambda: answers(port))
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def test_login_call_and_refresh_below_a_prefix(tmp_path: Path) -> None:
    with (
        client_pages() as pages,
        flow.site_for(pages, OAUTH_ONLY="1") as site,
        server(UVICORN, environment=site.environment) as worker,
        nginx(tmp_path, worker.port) as port,
    ):
        prefixed = replace(site, port=port)
        program = python_sdk("sdk2")()
        saved = tmp_path / "saved"
        command: Command = [*program, prefixed.url("/app/mcp"), saved, pages.redirect_uri]
        check_login_and_refresh(command, prefixed, pages)
