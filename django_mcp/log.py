"""Logging: to the client of a call, with the ids of a call, and of messages that may repeat.

In Django's LOGGING: ``{"class": "django_mcp.log.ClientHandler", "level": "INFO"}``, for
the loggers whose records may leave the site. Records outside a call are ignored.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from django_mcp.frame.client.base import current, current_frame
from django_mcp.frame.transport import HttpTransport, Transport
from django_mcp.protocol.limits import shown

OWN = "django_mcp"
"""The loggers of this package, whose records are not for clients."""

LEVELS = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (25, "notice"),
    (logging.INFO, "info"),
)
"""The lowest number of each level of the protocol; lower records are "debug"."""


class ClientHandler(logging.Handler):
    """Sends each record to the client of the current call, under its logger's name.

    Tracebacks are not sent, unless a formatter adds them. The level and the rate limit of the
    client apply as for ``frame.client.log``.
    """

    def emit(self, record: logging.LogRecord) -> None:
        client = current.get()
        if client is None or record.name.partition(".")[0] == OWN:
            return
        try:
            text = self.format(record) if self.formatter else record.getMessage()
            client.log(level_of(record.levelno), text, logger=record.name)
        except Exception:
            self.handleError(record)


REQUEST_ID_HEADER = "x-request-id"
"""The header in which proxies send an id for the logs of all services."""
NAMES = ("name", "uri")
"""The parameters which name what is called."""


class RequestFilter(logging.Filter):
    """Adds to each record which call it belongs to; it drops none.

    ``request_id`` is the ``X-Request-ID`` of the HTTP request, else the id of the message;
    ``mcp_method`` and ``mcp_name`` say what is called. Outside of handlers, each is "-". What a
    record has already is kept: those of the call log are written when the handler has ended.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        frame = current_frame.get()
        request = None if frame is None else frame.request
        facts = dict.fromkeys(("request_id", "mcp_method", "mcp_name"), "-")
        if frame is not None and request is not None:
            sent = _sent_request_id(frame.transport)
            facts["request_id"] = shown(str(request.id)) if sent is None else shown(sent)
            facts["mcp_method"] = shown(request.method)
            facts["mcp_name"] = _shown_name(request.params)
        for name, fact in facts.items():
            vars(record).setdefault(name, fact)
        return True


def _shown_name(params: Mapping[str, Any]) -> str:
    """Return the name or the URI of what a request is about."""
    for key in NAMES:
        name = params.get(key)
        if isinstance(name, str):
            return shown(name)
    return "-"


def _sent_request_id(transport: Transport | None) -> str | None:
    headers = transport.req_headers if isinstance(transport, HttpTransport) else ()
    return next((value for name, value in headers if name == REQUEST_ID_HEADER), None)


def print_calls() -> None:
    """Print the call log to standard error, unless the site has configured its logger."""
    calls = logging.getLogger(f"{OWN}.calls")
    if calls.level == logging.NOTSET and not calls.hasHandlers():
        calls.addHandler(logging.StreamHandler())
        calls.setLevel(logging.INFO)


def level_of(number: int) -> str:
    """Return the level of the protocol for a level of Python's logging."""
    return next((name for least, name in LEVELS if number >= least), "debug")


REPEAT_AFTER = 60.0
"""Seconds within which a message that repeats is logged once, and then its count."""


class RepeatedMessages:
    """Logs a message at once, its repetitions within a minute as one line with their number.

    A message is known by its level and its text before formatting, so that the number of messages
    is bounded by the code. One thread at most exists, and only while there is something to count.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._logged_at: dict[tuple[int, str], float] = {}
        self._counts: dict[tuple[int, str], int] = {}
        self._timer: threading.Timer | None = None

    def log(self, level: int, message: str, *args: Any, times: int = 1, **options: Any) -> None:
        """Log ``message % args``; ``times`` says how often it happened, the rest is logging's."""
        key = (level, message)
        now = time.monotonic()
        with self._guard:
            logged_at = self._logged_at.get(key)
            is_first = logged_at is None or now - logged_at >= REPEAT_AFTER
            is_first = is_first and key not in self._counts
            if is_first:
                self._logged_at[key] = now
            if times > is_first:
                self._counts[key] = self._counts.get(key, 0) + times - is_first
                self._start_timer()
        if is_first:
            logging.getLogger(OWN).log(level, message, *args, **options)

    def log_counts(self) -> None:
        """Log how often each message was repeated since it was last logged."""
        with self._guard:
            counts = self._counts
            self._counts = {}
            self._timer = None
            self._logged_at.update(dict.fromkeys(counts, time.monotonic()))
        for (level, message), count in counts.items():
            text = f"Repeated %s times within a minute: {message.replace('%', '%%')}"
            logging.getLogger(OWN).log(level, text, count)

    def forget(self) -> None:
        """Log each message at once again."""
        # A new lock, because a forked child may have copied one that is held.
        self._guard = threading.Lock()
        if self._timer is not None:
            self._timer.cancel()
        self._logged_at = {}
        self._counts = {}
        self._timer = None

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(REPEAT_AFTER, self.log_counts)
            self._timer.daemon = True
            self._timer.start()


repeated = RepeatedMessages()
"""For what may fail again and again, such as a store or the channel layer."""


def log_repeated(level: int, message: str, *args: Any, times: int = 1, **options: Any) -> None:
    """Log a message of this package at most once a minute, and how often it was repeated."""
    repeated.log(level, message, *args, times=times, **options)


os.register_at_fork(after_in_child=repeated.forget)
