"""gevent and eventlet, whose greenlets stand in for threads: MCP servers refuse to run on them."""

from __future__ import annotations

import sys

from django.core.exceptions import ImproperlyConfigured

REFUSED = (
    "{library} has replaced the threads of Python in this process. MCP servers do not run on its "
    "greenlets: a greenlet may be switched in the middle of a transaction, and data that was "
    "reported as saved would be lost. {remedy}"
)
FOR_SERVERS = (
    "Serve the site with threads, as in gunicorn mysite.wsgi:application --threads 8, or with an "
    "ASGI server. If other pages need {library}, serve them in a process of their own, from an "
    "application without mount()."
)
FOR_WORKERS = "Start the worker of this queue with processes or threads: celery --pool prefork."


def refuse_to_serve() -> None:
    """Raise ImproperlyConfigured if the threads of this process are greenlets."""
    _refuse(FOR_SERVERS)


def refuse_to_run_tasks() -> None:
    """Raise ImproperlyConfigured if the threads of this worker process are greenlets."""
    _refuse(FOR_WORKERS)


def _refuse(remedy: str) -> None:
    library = _patched_by()
    if library is not None:
        raise ImproperlyConfigured(
            REFUSED.format(library=library, remedy=remedy.format(library=library))
        )


def _patched_by() -> str | None:
    """The library that has replaced ``threading``. One that nobody has imported has not."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return None
