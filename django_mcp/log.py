"""Python's logging, heard by the client: a handler which sends it what is logged in its call.

In Django's LOGGING: ``{"class": "django_mcp.log.ClientHandler", "level": "INFO"}``, for
the loggers whose records may leave the site. Outside a call it does nothing.
"""

from __future__ import annotations

import logging

from django_mcp.frame.client.base import current

OWN = "django_mcp"
"""The loggers of this package: what they say is about the client, or about our insides."""

LEVELS = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (25, "notice"),
    (logging.INFO, "info"),
)
"""From which number on a record is of which level; below all of them it is "debug"."""


class ClientHandler(logging.Handler):
    """Sends each record to the client whose call is being answered, under its logger's name.

    Tracebacks stay here, unless a formatter of yours puts them into the text. What the client
    wants to hear, and how much of it, is decided as for ``frame.client.log``.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record, if there is somebody to send it to."""
        client = current.get()
        if client is None or record.name.partition(".")[0] == OWN:
            return
        try:
            text = self.format(record) if self.formatter else record.getMessage()
            client.log(level_of(record.levelno), text, logger=record.name)
        except Exception:
            self.handleError(record)


def level_of(number: int) -> str:
    """The level of the protocol which a number of Python's logging means."""
    return next((name for least, name in LEVELS if number >= least), "debug")
