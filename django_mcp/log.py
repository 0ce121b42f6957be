"""Logging: to the client of a call, and with the ids of a call.

In Django's LOGGING: ``{"class": "django_mcp.log.ClientHandler", "level": "INFO"}``, for
the loggers that may send records to clients. Records outside a call are ignored.
"""

from __future__ import annotations

import logging

from django_mcp.core.frame.client.base import current, current_frame
from django_mcp.core.frame.transport import HttpTransport
from django_mcp.core.log import OWN
from django_mcp.core.protocol.limits import shown

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

    Level and rate limit are those of ``frame.client.log``. Tracebacks are sent only if a formatter
    adds them.
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
"""The header where proxies send an id for the logs of all services."""
NAMES = ("name", "uri")
"""The parameters with the name of the called component."""


class RequestFilter(logging.Filter):
    """Adds to each record which call it belongs to; it drops none.

    ``request_id`` is the ``X-Request-ID`` of the HTTP request, else the id of the message;
    ``mcp_method`` and ``mcp_name`` say what is called. Outside of handlers, each is "-".
    """

    def filter(self, record: logging.LogRecord) -> bool:
        frame = current_frame.get()
        request = None if frame is None else frame.request
        facts = dict.fromkeys(("request_id", "mcp_method", "mcp_name"), "-")
        if frame is not None and request is not None:
            transport = frame.transport
            headers = transport.req_headers if isinstance(transport, HttpTransport) else ()
            sent = next((value for name, value in headers if name == REQUEST_ID_HEADER), None)
            facts["request_id"] = shown(str(request.id)) if sent is None else shown(sent)
            facts["mcp_method"] = shown(request.method)
            names = (request.params.get(key) for key in NAMES)
            facts["mcp_name"] = next((shown(name) for name in names if isinstance(name, str)), "-")
        for name, fact in facts.items():
            vars(record).setdefault(name, fact)
        return True


def print_calls() -> None:
    """Print the call log to standard error, unless the site has configured its logger."""
    calls = logging.getLogger(f"{OWN}.calls")
    if calls.level == logging.NOTSET and not calls.hasHandlers():
        calls.addHandler(logging.StreamHandler())
        calls.setLevel(logging.INFO)


def level_of(number: int) -> str:
    """Return the level of the protocol for a level of Python's logging."""
    return next((name for least, name in LEVELS if number >= least), "debug")
