"""Which kind of application ``mount`` takes and returns, and what it mounts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from django_mcp import routing
from django_mcp.transports.http.endpoint import Endpoint
from django_mcp.transports.http.request import WAITING_THREAD
from django_mcp.transports.wsgi import event_loop, waiting_thread
from tests.wsgi.requests import environ, perform, respond


async def asgi_function(scope: Any, receive: Any, send: Any) -> None: ...


def wsgi_function(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("x-path", environ["PATH_INFO"])])
    return [b"page"]


class AsgiMiddleware:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class WsgiMiddleware:
    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        return wsgi_function(environ, start_response)


class PatchedMiddleware:
    """Like one that chooses its method when it is created."""

    def __init__(self) -> None:
        setattr(self, "__call__", asgi_function)  # noqa: B010 - as such middleware does it

    def __call__(self, *args: Any) -> Any: ...


def synchronous_asgi(scope: Any, receive: Any, send: Any) -> Any:
    return asgi_function(scope, receive, send)


APPLICATIONS = [
    pytest.param(get_asgi_application(), "ASGI", id="Django's ASGI handler"),
    pytest.param(get_wsgi_application(), "WSGI", id="Django's WSGI handler"),
    pytest.param(asgi_function, "ASGI", id="coroutine function"),
    pytest.param(synchronous_asgi, "ASGI", id="function that returns a coroutine"),
    pytest.param(wsgi_function, "WSGI", id="function"),
    pytest.param(partial(wsgi_function), "WSGI", id="partial function"),
    pytest.param(AsgiMiddleware(), "ASGI", id="ASGI middleware"),
    pytest.param(PatchedMiddleware(), "ASGI", id="ASGI middleware by attribute"),
    pytest.param(WsgiMiddleware(), "WSGI", id="WSGI middleware"),
]


@pytest.mark.parametrize(("application", "interface"), APPLICATIONS)
def test_mounted_application_is_of_the_kind_of_the_given_one(
    application: Any, interface: str
) -> None:
    mounted: Any = routing.mount(application)
    assert routing._interface_of(application) == interface
    assert routing._interface_of(mounted) == interface
    assert routing._interface_of(routing.mount(mounted)) == interface


@pytest.mark.parametrize("value", [None, "mysite.wsgi", get_wsgi_application, lambda *args: None])
def test_what_is_no_application_is_refused(value: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"application = mount\(get_wsgi_application"):
        routing.mount(value)


@pytest.mark.parametrize("path", ["/", "/mcpx", "/elsewhere/mcp", "/\xff"])
def test_other_paths_are_those_of_django(path: str) -> None:
    reply = perform(routing.mount(wsgi_function), environ("GET", path))
    assert reply.body == b"page"


@pytest.mark.parametrize(
    "path",
    [
        "/mcp/healthz",
        "/.well-known/oauth-protected-resource/mcp",
        "/mcp/.well-known/oauth-protected-resource",
    ],
)
def test_paths_besides_that_of_the_endpoint_are_served(path: str) -> None:
    variables = environ("GET", path, headers={"Host": "testserver"})
    reply = perform(routing.mount(wsgi_function), variables)
    assert reply.status == 200
    assert reply.body != b"page"


def test_prefix_of_the_site_is_not_a_part_of_the_path() -> None:
    variables = environ("GET", "/mcp/healthz", more={"SCRIPT_NAME": "/app"})
    assert perform(routing.mount(wsgi_function), variables).status == 200


def test_endpoint_is_passed_the_thread_that_waits_for_its_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scopes: list[Any] = []

    async def answer(endpoint: Endpoint, scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await respond(send, b"")

    monkeypatch.setattr(Endpoint, "__call__", answer)
    perform(routing.mount(wsgi_function), environ(path="/mcp"))
    assert scopes[0][WAITING_THREAD] is waiting_thread


@pytest.mark.parametrize(("has_threads", "errors"), [(0, 1), (1, 0)])
def test_first_request_in_uwsgi_without_threads_logs_the_missing_option(
    has_threads: int,
    errors: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(has_threads=has_threads))
    monkeypatch.setattr(event_loop.OF_PROCESS, "thread", None)
    application = routing.mount(wsgi_function)
    for _ in range(2):
        assert perform(application, environ("GET", "/mcp/healthz")).status == 200
    assert caplog.text.count("enable-threads = true") == errors
    loop = event_loop.current().loop
    loop.call_soon_threadsafe(loop.stop)


@pytest.mark.parametrize("is_reloaded", [True, False])
def test_process_that_runserver_reloads_waits_for_nothing(
    is_reloaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[Any] = []

    def stop(coroutine: Any, loop: Any) -> Any:
        coroutine.close()
        stopped.append(loop)
        return SimpleNamespace(result=lambda seconds: None)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", stop)
    monkeypatch.setenv("RUN_MAIN", "true" if is_reloaded else "")
    running: Any = SimpleNamespace(has_ended=False, loop=object())
    routing._stop_loop(running)
    assert stopped == ([] if is_reloaded else [running.loop])
