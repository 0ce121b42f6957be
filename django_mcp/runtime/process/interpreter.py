"""The Python of a process that serves: its threads, and its garbage collector.

MCP servers need the threads of Python. They refuse to run on the greenlets of gevent and eventlet,
and log an error where an older uWSGI runs without threads.
"""

from __future__ import annotations

import gc
import logging
import sys
from functools import cache

from django.core.exceptions import ImproperlyConfigured

logger = logging.getLogger("django_mcp")

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
NO_THREADS = (
    "uWSGI runs without threads of Python, so that nothing happens between two requests: tasks in "
    "this process and calls that lost their connection wait for the next request. Add "
    "enable-threads = true to the configuration of uWSGI."
)


def refuse_greenlets(remedy: str) -> None:
    """Raise ImproperlyConfigured, with a remedy, if the threads of this process are greenlets."""
    library = _patched_by()
    if library is not None:
        raise ImproperlyConfigured(
            REFUSED.format(library=library, remedy=remedy.format(library=library))
        )


def _patched_by() -> str | None:
    """Return the library that has replaced ``threading``: only an imported one can have."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return None


def check_threads() -> None:
    """Log an error if this process is a worker of uWSGI without other threads."""
    # Only uWSGI itself has this module.
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and not getattr(uwsgi, "has_threads", True):
        logger.error(NO_THREADS)


@cache
def freeze() -> None:
    """Exempt all that exists from later collections; only the first call does.

    A full collection looks at every object of the process, such as the code and the models of the
    site: 45 ms for a small one, without any answer meanwhile. Under load, the objects of running
    calls make the collector begin full collections several times a second, which find nothing.
    Later objects are still collected.
    """
    gc.collect()
    gc.freeze()
