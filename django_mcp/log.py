"""A logging handler which forwards the records of a call to its client.

In Django's LOGGING: ``{"class": "django_mcp.log.ClientHandler", "level": "INFO"}``, for
the loggers whose records may leave the site. Records outside a call are ignored.
"""

from __future__ import annotations

import logging

from django_mcp.frame.client.base import current

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


def level_of(number: int) -> str:
    """Return the level of the protocol for a level of Python's logging."""
    return next((name for least, name in LEVELS if number >= least), "debug")
