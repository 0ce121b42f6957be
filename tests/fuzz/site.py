"""The servers that are fuzzed, in this process: no socket, sessions in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from django_mcp import Frame, Server
from tests.conversations.sample_server import desk
from tests.memory_stores import MEMORY

SETTINGS = {
    "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
    "STORES": MEMORY,
    "HANDLER_TIMEOUT": 2,
    "SHUTDOWN_TIMEOUT": 0.01,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"enum": ["s", "m"]},
        "names": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        "unique": {"type": "array", "uniqueItems": True},
        "tree": {"$ref": "#/$defs/tree"},
        "either": {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "number"}]},
    },
    "patternProperties": {"^x-": {"type": "string", "maxLength": 5}},
    "additionalProperties": False,
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"branches": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        }
    },
}


class Item(BaseModel):
    """A member of many types, and of its own type."""

    name: str = Field("x", max_length=20, pattern="^[^<>]*$")
    when: datetime | date | None = None
    price: Decimal = Decimal(1)
    kind: Literal["a", "b"] | int = "a"
    items: list[Item] = []


def shop() -> Server:
    """The server of the transcripts, with arguments of many types and with more templates."""
    server = desk()

    @server.tool
    def add(a: int, b: int = 0) -> int:
        """Add."""
        return a + b

    @server.tool
    def take(
        numbers: set[int] = set(),  # noqa: B006 - it is not changed.
        counts: dict[int, float] = {},  # noqa: B006
        items: list[Item] = [],  # noqa: B006
        key: uuid.UUID | bytes | None = None,
        part: Annotated[float, Field(ge=0, le=1)] = 0,
    ) -> str:
        """Take arguments of many types."""
        return str(len(numbers) + len(counts) + len(items))

    @server.tool(input_schema=SCHEMA)
    def check(arguments: Mapping[str, Any]) -> str:
        """Take what a hand-written schema accepts."""
        return str(len(arguments))

    async def wait(frame: Frame) -> str:
        """Wait for some time, not for ever."""
        await frame.client.aprogress(1)
        await asyncio.sleep(0.1)
        return "done"

    server.register_tool("wait", wait, order=6)

    @server.resource("files://{+path}")
    def file(path: str) -> str:
        """A file."""
        return path

    @server.resource("query://{name}/x{?page}")
    def query(name: str, page: int = 1) -> str:
        """A page of a query."""
        return f"{name} {page}"

    return server
