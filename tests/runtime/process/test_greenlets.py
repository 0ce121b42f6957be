"""Processes with greenlets in place of threads refuse MCP servers and tasks."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from django_mcp import routing
from django_mcp.tasks import execution
from django_mcp.transports.wsgi import event_loop
from tests.processes import ROOT, server
from tests.wsgi.requests import environ, perform
from tests.wsgi.servers import APPLICATION, BIND, environment

GEVENT = ("gevent.monkey", SimpleNamespace(is_module_patched=lambda name: name == "threading"))
EVENTLET = ("eventlet.patcher", SimpleNamespace(is_monkey_patched=lambda name: name == "thread"))
LIBRARIES = [pytest.param(GEVENT, id="gevent"), pytest.param(EVENTLET, id="eventlet")]

with_gevent = pytest.mark.skipif(find_spec("gevent") is None, reason="gevent is not installed")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("django", [get_wsgi_application(), get_asgi_application()])
def test_mount_in_a_process_with_greenlets_is_refused(
    library: tuple[str, Any], django: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, *library)
    name = library[0].partition(".")[0]
    with pytest.raises(ImproperlyConfigured, match=f"{name} has replaced the threads.*--threads"):
        routing.mount(django)


@pytest.mark.parametrize("library", LIBRARIES)
def test_process_that_is_patched_after_the_mount_refuses_requests(
    library: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    application = routing.mount(get_wsgi_application())
    monkeypatch.setattr(event_loop.OF_PROCESS, "thread", None)
    monkeypatch.setitem(sys.modules, *library)
    for _ in range(2):
        with pytest.raises(ImproperlyConfigured, match="has replaced the threads"):
            perform(application, environ("GET", "/mcp/healthz"))
    assert event_loop.OF_PROCESS.thread is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_worker_with_greenlets_refuses_tasks(
    library: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, *library)
    with pytest.raises(ImproperlyConfigured, match="has replaced the threads.*prefork"):
        execution.run_in_new_loop("task")


def test_library_that_has_patched_nothing_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    unused = SimpleNamespace(is_module_patched=lambda _: False, is_monkey_patched=lambda _: False)
    monkeypatch.setitem(sys.modules, "gevent.monkey", unused)
    monkeypatch.setitem(sys.modules, "eventlet.patcher", unused)
    application = routing.mount(get_wsgi_application())
    headers = {"Host": "testserver"}
    assert perform(application, environ("GET", "/mcp/healthz", headers=headers)).status == 200


@with_gevent
def test_worker_of_gunicorn_with_gevent_does_not_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gunicorn", "--worker-class", "gevent", APPLICATION]
    ended = subprocess.run(
        [*command, "--bind", "127.0.0.1:0"],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3  # gunicorn's "Worker failed to boot".
    assert "ImproperlyConfigured: gevent has replaced the threads of Python" in ended.stderr


@with_gevent
def test_preloaded_application_fails_at_requests_under_gevent(tmp_path: Path) -> None:
    command = ["gunicorn", *BIND, "--worker-class", "gevent", "--preload", APPLICATION]
    with server(command, environment=environment(tmp_path)) as running:
        assert httpx.get(f"http://127.0.0.1:{running.port}/mcp/healthz").status_code == 500
        log = running.log
    assert "ImproperlyConfigured: gevent has replaced the threads of Python" in log
