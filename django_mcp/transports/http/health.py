"""Health endpoints for balancers: whether the process lives, and whether it can serve requests.

Anybody may ask them, so that an answer says nothing else and costs nothing: the stores and the
channel layer are asked at most once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any

from django_mcp import stores
from django_mcp.core.concurrency import loops
from django_mcp.pubsub import channel_layer
from django_mcp.runtime import background
from django_mcp.transports.http import shutdown
from django_mcp.transports.http.request import Asgi

logger = logging.getLogger("django_mcp")

VALID_FOR = 1.0
"""Seconds that a result is answered again."""
ANSWER_WITHIN = 2.0
"""Seconds for the answers of the stores and the layer, all together."""
GIVE_UP_AFTER = 15.0
"""Seconds until they are asked again: a connection that has died silently may never answer."""
NOBODY = "readyz"
"""The session that is looked up, and the group that is sent to. There is none of that name."""


async def _ask_session_store() -> None:
    await stores.sessions().load(NOBODY)


async def _ask_event_store() -> None:
    await stores.events().is_closed(NOBODY, NOBODY)


async def _ask_channel_layer() -> None:
    if (layer := channel_layer.shared()) is not None:
        await layer.group_send(NOBODY, {"type": channel_layer.TYPE})


PARTS: Mapping[str, Callable[[], Awaitable[None]]] = {
    "The session store": _ask_session_store,
    "The event store": _ask_event_store,
    "The channel layer": _ask_channel_layer,
}


class Readiness:
    """Whether stores and channel layer answer. They are asked by one task at a time."""

    def __init__(self) -> None:
        self._probe: asyncio.Task[None] | None = None
        self._part = ""
        self._began_at = self._ended_at = -inf
        self._is_ready = True

    async def get(self) -> bool:
        """Whether all answer now, or did a moment ago; False while one of them takes too long."""
        now = asyncio.get_running_loop().time()
        if self._probe is None and now - self._ended_at >= VALID_FOR:
            self._began_at = now
            self._probe = background.create_task(self._ask())
        if self._probe is not None:
            # The task goes on, so that a store that hangs holds up no second one.
            await asyncio.wait([self._probe], timeout=self._began_at + ANSWER_WITHIN - now)
        if self._probe is not None:
            self._note(False, "takes too long")
        return self._is_ready

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_AFTER):
                for self._part, ask in PARTS.items():
                    await ask()
            self._note(True)
        except Exception as error:
            self._note(False, f"fails: {type(error).__name__}")
        finally:
            self._probe = None
            self._ended_at = asyncio.get_running_loop().time()

    def _note(self, is_ready: bool, problem: str = "") -> None:
        """Keep the result, and log it if it is another one than before."""
        if is_ready is not self._is_ready:
            self._is_ready = is_ready
            if is_ready:
                logger.info("This process is ready again")
            else:
                logger.warning("This process is not ready: %s %s", self._part, problem)


async def is_alive() -> bool:
    return True


async def is_ready() -> bool:
    loop = asyncio.get_running_loop()
    return not shutdown.here(loop).has_begun and await loops.here(Readiness).get()


def _endpoint(answer: Callable[[], Awaitable[bool]]) -> Asgi:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            text = b"Method not allowed: use GET\n"
            await _send(scope, send, 405, text, (b"allow", b"GET, HEAD"))
        elif await answer():
            await _send(scope, send, 200, b"ok\n")
        else:
            await _send(scope, send, 503, b"not ready\n", (b"retry-after", b"1"))

    return application


async def _send(
    scope: Any, send: Any, status: int, text: bytes, *more: tuple[bytes, bytes]
) -> None:
    headers = [
        (b"content-type", b"text/plain"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"%d" % len(text)),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else text
    await send({"type": "http.response.body", "body": body})


ENDPOINTS: Mapping[str, Asgi] = {"healthz": _endpoint(is_alive), "readyz": _endpoint(is_ready)}


def below(path: str) -> dict[str, Asgi]:
    """The health endpoints of the server at ``path``."""
    return {f"{path.rstrip('/')}/{name}": endpoint for name, endpoint in ENDPOINTS.items()}
