"""The client as a handler sees it: inform it, ask it.

A handler reaches it as ``frame.client``. Informing never blocks and works from synchronous
and from asynchronous handlers alike; the ``a`` twins also wait until the stream has room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import InvalidParams

if TYPE_CHECKING:
    from django_mcp.exchange import Exchange
    from django_mcp.protocol.errors import Json
    from django_mcp.protocol.revisions import Revision

LEVELS: Mapping[str, int] = {
    name: severity
    for severity, name in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    )
}
"""The log levels of RFC 5424, least severe first."""

ALIASES: Mapping[str, str] = {"warn": "warning", "fatal": "critical"}
"""Other spellings, from the seeds, which authors and clients may use in any case."""


def level_name(spelling: str) -> str | None:
    """The level that a spelling means, or None."""
    name = spelling.lower()
    name = ALIASES.get(name, name)
    return name if name in LEVELS else None


class Client:
    """The other side of one request.

    ``capabilities`` is what the client says it can do, ``log_level`` the least severe level it
    wants to hear of, or None when it wants no log messages at all.
    """

    __slots__ = (
        "_exchange",
        "_last_progress",
        "_log_level",
        "_logger",
        "_progress_token",
        "_revision",
        "capabilities",
    )

    def __init__(
        self,
        *,
        revision: Revision,
        capabilities: Json,
        exchange: Exchange,
        log_level: str | None,
        logger: str,
        progress_token: str | int | None = None,
    ) -> None:
        self.capabilities = capabilities
        self._revision = revision
        self._exchange = exchange
        self._log_level = log_level
        self._logger = logger
        self._progress_token = progress_token
        self._last_progress: float | None = None

    # Inform it.

    def log(
        self, level: str, message: str | None = None, *, data: Any = None, logger: str | None = None
    ) -> None:
        """Send a log message, unless the client wants none of this level.

        What travels is ``data`` (any JSON value), or else the message. Never put secrets or
        personal data into it. Raises ValueError for a level that does not exist.
        """
        name = level_name(level)
        if name is None:
            raise ValueError(f"{level!r} is not a log level; use one of {', '.join(LEVELS)}")
        if self._log_level is None or LEVELS[name] < LEVELS[self._log_level]:
            return
        self.notify(
            "notifications/message",
            {
                "level": name,
                "logger": logger or self._logger,
                "data": message if data is None else data,
            },
        )

    async def alog(self, level: str, message: str | None = None, **options: Any) -> None:
        """``log``, and wait until the stream has room again."""
        self.log(level, message, **options)
        await self._exchange.flush()

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the work has come: silent unless the client asked for it.

        The number must grow; one that does not is left out.
        """
        if self._progress_token is None:
            return
        if self._last_progress is not None and progress <= self._last_progress:
            return
        self._last_progress = progress
        told = {"progress": progress, "total": total, "message": message}
        params = {name: value for name, value in told.items() if value is not None}
        self.notify(
            "notifications/progress",
            self._revision.pick("progress", {"progressToken": self._progress_token, **params}),
        )

    async def aprogress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """``progress``, and wait until the stream has room again."""
        self.progress(progress, total, message)
        await self._exchange.flush()

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send any notification on this request's stream, where the revision knows it."""
        if method in self._revision.announcements or not method.startswith("notifications/"):
            self._exchange.write(jsonrpc.notification(method, params))

    async def anotify(self, method: str, params: Json | None = None) -> None:
        """``notify``, and wait until the stream has room again."""
        self.notify(method, params)
        await self._exchange.flush()


def progress_token(params: Json) -> str | int | None:
    """The token under which the client wants to hear of progress; InvalidParams for a wrong one."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is None or jsonrpc.is_id(token):
        return token
    raise InvalidParams("_meta.progressToken must be a string or an integer")
