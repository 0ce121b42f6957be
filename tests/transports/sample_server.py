"""A server with a component of each kind, whose handlers the test controls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from django_mcp import Frame, McpError, Server
from django_mcp.testing.asgi import TIMEOUT

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Desk:
    """The server, and the events that its handlers wait for."""

    def __init__(self, name: str = "desk", **options: Any) -> None:
        self.server = Server(name, **{"notify_lists_on_initialize": True, **options})
        self.started = asyncio.Event()
        self.proceed = asyncio.Event()
        self.ended: list[str] = []
        """The exceptions that ended handlers."""
        self.thread = threading.Event()
        self._offer()

    async def wait_started(self) -> None:
        async with asyncio.timeout(TIMEOUT):
            await self.started.wait()

    def _offer(self) -> None:
        server = self.server

        @server.tool
        async def work(frame: Frame) -> str:
            """Sends a log message, and waits."""
            frame.client.log("error", "started")
            await self._wait()
            frame.client.log("error", "going on")
            return "done"

        @server.tool
        async def work_silently() -> str:
            """Waits."""
            await self._wait()
            return "done"

        @server.tool
        async def let_go(frame: Frame) -> str:
            """Closes its stream before it waits."""
            await frame.client.aclose_stream(retry=250)
            await self._wait()
            return "done"

        @server.tool
        async def ask(frame: Frame) -> str:
            """Requests a name."""
            try:
                answer = await frame.client.aelicit("What is your name?", FORM)
            except McpError as error:
                return f"error {error.code}: {error.message}"
            return f"{answer.action}: {answer.content}"

        @server.tool
        def ask_in_a_thread(frame: Frame) -> str:
            """Requests a name, in a thread."""
            try:
                answer = frame.client.elicit("What is your name?", FORM)
            except (ConnectionError, TimeoutError) as error:
                self.ended.append(type(error).__name__)
                raise
            finally:
                self.thread.set()
            return f"{answer.action}: {answer.content}"

        @server.tool
        async def ping_client(frame: Frame) -> str:
            """Pings the client."""
            await frame.client.aping(timeout=1)
            return "there"

        @server.prompt
        def greet() -> str:
            """A prompt."""
            return "Hello"

        @server.resource("desk://news")
        def news() -> str:
            """A resource."""
            return "Nothing new"

        @server.resource("desk://drawer/{number}")
        def drawer(number: int) -> str:
            """A template."""
            return f"Drawer {number}"

        @server.resource("desk://secret", permission=lambda frame: False)
        def secret() -> str:
            """A resource that is hidden from everybody."""
            return "Shh"

    async def _wait(self) -> None:
        self.started.set()
        try:
            await self.proceed.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
