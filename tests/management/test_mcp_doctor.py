"""The command mcp_doctor against servers that run, and the HTTP client that it has."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from django_mcp.management import examination
from django_mcp.management.discovery import Probe
from django_mcp.management.examination import Http
from tests.running_site import running_site

Handle = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def other_project(settings: Settings) -> None:
    """The servers of these tests are of other projects than that of the settings."""
    settings.ALLOWED_HOSTS = ["other.example"]


class WebServer(ThreadingHTTPServer):
    """A server whose responses a test writes."""

    daemon_threads = True
    block_on_close = False
    handle_one: Handle

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            server.handle_one(self)

        do_POST = do_OPTIONS = do_DELETE = do_GET

    server = WebServer(("localhost", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def respond(
    handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str
) -> None:
    handler.send_response(status)
    for name, value in {"content_length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def get(web: WebServer, path: str = "/", *, timeout: float = 5.0, **options: Any) -> Any:
    return Http(timeout, lambda _: None).answer(Probe("GET", web.url + path, **options))


# The HTTP client.


def test_status_headers_and_body_are_read_whatever_the_status(web: WebServer) -> None:
    web.handle_one = lambda each: respond(each, 401, b"no", www_authenticate="Bearer")
    answer = get(web)
    assert (answer.status, answer.body) == (401, b"no")
    assert answer.all("www-authenticate") == ["Bearer"]


def test_redirects_are_followed_only_where_a_client_does(web: WebServer) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/":
            respond(handler, 302, location="/there")
        else:
            respond(handler, 200, b"{}")

    web.handle_one = handle
    assert get(web).status == 302
    assert get(web, follows_redirects=True).status == 200
    web.handle_one = lambda each: respond(each, 302, location="/")
    assert "redirects" in get(web, follows_redirects=True).error


def test_redirect_to_a_file_is_not_followed(web: WebServer) -> None:
    web.handle_one = lambda each: respond(each, 302, location="file:///etc/passwd")
    answer = get(web, follows_redirects=True)
    assert answer.status == 0
    assert "no http or https URL" in answer.error


def test_body_is_read_up_to_its_limit(web: WebServer) -> None:
    web.handle_one = lambda each: respond(each, 200, b"x" * (examination.MAX_BODY + 1000))
    assert len(get(web).body) == examination.MAX_BODY


def test_slow_response_ends_after_the_timeout(web: WebServer) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(30):
            handler.wfile.write(b"x: y\r\n")
            handler.wfile.flush()
            time.sleep(0.1)

    web.handle_one = drip
    started = time.monotonic()
    assert "timed out" in get(web, timeout=0.3).error
    assert time.monotonic() - started < 2


def test_stream_is_read_up_to_its_first_event(web: WebServer) -> None:
    def stream(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b'data: {"result": {}}\n\n')
        handler.wfile.flush()
        time.sleep(1)

    web.handle_one = stream
    started = time.monotonic()
    assert get(web).json() == {"result": {}}
    assert time.monotonic() - started < 1


def test_connection_error_is_an_answer() -> None:
    answer = Http(1, lambda _: None).answer(Probe("GET", "http://localhost:1/"))
    assert answer.status == 0
    assert answer.error


def test_equal_probes_are_sent_once(web: WebServer) -> None:
    paths = []

    def handle(handler: BaseHTTPRequestHandler) -> None:
        paths.append(handler.path)
        respond(handler, 404)

    web.handle_one = handle
    with pytest.raises(CommandError):
        call_command("mcp_doctor", f"{web.url}/mcp", verbosity=0)
    assert len(paths) == 3  # server/discover, initialize, and a preflight.


# The command.


def public(handler: BaseHTTPRequestHandler) -> None:
    """Answer as a server of another framework which everybody may use."""
    kind = "application/json"
    if handler.command == "POST":
        result = {"jsonrpc": "2.0", "id": 1, "result": {}}
        respond(handler, 200, json.dumps(result).encode(), content_type=kind)
    else:
        respond(handler, 404, b"{}", content_type=kind)


def test_server_at_which_nothing_is_wrong_is_reported(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    web.handle_one = public
    call_command("mcp_doctor", f"{web.url}/mcp", client="cursor")
    assert capsys.readouterr().out.splitlines() == [
        "Cursor",
        "  ok      Without credentials: everybody may connect",
        "  ok      There is nothing to log in to",
    ]


def test_failures_end_with_an_error_that_names_the_clients(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    web.handle_one = lambda each: respond(each, 404, b"<html>", content_type="text/html")
    with pytest.raises(CommandError, match="All clients cannot connect to"):
        call_command("mcp_doctor", f"{web.url}/mcp")
    output = capsys.readouterr().out
    assert output.count("FAILURE The first request is answered 404 with an HTML page") == 1
    assert output.count("Mend: Correct the path") == 1


def test_clients_that_fail_alone_are_named(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def handle(handler: BaseHTTPRequestHandler) -> None:
        if b"mcp-method" in str(handler.headers).lower().encode():
            respond(handler, 500)
        else:
            public(handler)

    web.handle_one = handle
    with pytest.raises(CommandError, match="Claude, Claude Code cannot connect to"):
        call_command("mcp_doctor", f"{web.url}/mcp")
    assert "Claude, Claude Code\n  FAILURE The first request is answered 500" in (
        capsys.readouterr().out
    )


def test_requests_are_printed_with_verbosity_2(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    web.handle_one = public
    call_command("mcp_doctor", f"{web.url}/mcp", client="cursor", verbosity=2)
    assert f"POST {web.url}/mcp: 200 with application/json" in capsys.readouterr().out


@pytest.mark.django_db
def test_default_url_is_that_of_the_default_server(
    settings: Settings, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    public_server = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
    settings.DJANGO_MCP = {
        "BASE_URL": web.url,
        "PATH": "/our/mcp",
        "AUTHENTICATORS": public_server,
    }
    web.handle_one = public
    call_command("mcp_doctor", client="cursor", verbosity=2)
    assert f"POST {web.url}/our/mcp" in capsys.readouterr().out


@pytest.mark.parametrize("url", ["example.com/mcp", "ftp://example.com/mcp", "http:///mcp", "//["])
def test_invalid_url_raises_command_error(url: str) -> None:
    with pytest.raises(CommandError, match="is no http or https URL"):
        call_command("mcp_doctor", url)


@pytest.mark.parametrize("timeout", ["nan", "inf", "0"])
def test_invalid_timeout_raises_command_error(timeout: str) -> None:
    with pytest.raises(CommandError, match="--timeout must be a number of seconds"):
        call_command("mcp_doctor", "http://127.0.0.1:9/mcp", "--timeout", timeout)


def test_example_site_has_no_failures(capsys: pytest.CaptureFixture[str]) -> None:
    with running_site() as site:
        call_command("mcp_doctor", site.url("/mcp"))
    assert "FAILURE" not in capsys.readouterr().out
