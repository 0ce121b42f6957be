"""uWSGI: its older versions run threads of Python only with an option."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("django_mcp")

NO_THREADS = (
    "uWSGI runs without threads of Python, so that nothing happens between two requests: tasks in "
    "this process and calls that lost their connection wait for the next request. Add "
    "enable-threads = true to the configuration of uWSGI."
)


def check_threads() -> None:
    """Log an error if this process is a worker of uWSGI without other threads."""
    # Only uWSGI itself has this module.
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and not getattr(uwsgi, "has_threads", True):
        logger.error(NO_THREADS)
