"""The bare application: it decodes the JSON body and responds with fixed bytes.

The bytes are the measured server's response to the same request, in the same parts. The result is
the cost of the ASGI server and the event loop alone.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.benchmarks.answers import Answer

Send = Callable[[dict[str, Any]], Awaitable[None]]
PUBLISH = "/publish"
"""The path that makes the bare application write to its open streams."""


def answering(answer: Answer) -> Callable[[Any, Any, Send], Awaitable[None]]:
    """Return an application whose response is always `answer`."""
    start = {"type": "http.response.start", "status": answer.status, "headers": answer.pairs}
    stays_open = answer.event is not None
    *first, last = answer.parts
    pieces = [*(_piece(part, more=True) for part in first), _piece(last, more=stays_open)]
    event = _piece(answer.event or b"", more=True)
    streams: dict[Send, None] = {}

    async def application(scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        json.loads(await _body(receive))
        if scope["path"] == PUBLISH:
            for stream in streams:
                await stream(event)
            await _accept(send)
            return
        await send(start)
        for piece in pieces:
            await send(piece)
        if stays_open:
            streams[send] = None
            while (await receive())["type"] != "http.disconnect":
                pass
            del streams[send]

    return application


def _piece(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _body(receive: Any) -> bytes:
    message = await receive()
    parts = [message["body"]]
    while message.get("more_body"):
        message = await receive()
        parts.append(message["body"])
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _accept(send: Send) -> None:
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b""})
