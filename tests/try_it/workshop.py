"""Components which the tests try."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal
from enum import StrEnum
from threading import Event
from typing import Annotated

from pydantic import BaseModel, Field

from django_mcp import Approval, Frame, Response, Server, ToolError

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
SCRIPT = "</pre><script>alert(1)</script>"


CANCELLED = Event()
"""Set when the tool ``wait`` was cancelled."""


class Branch(BaseModel):
    name: str
    branches: list[Branch] = []


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    city: str = "Bern"


class Line(BaseModel):
    product: str
    number: Annotated[int, Field(ge=1)] = 1


def add_components(server: Server) -> None:
    @server.tool(read_only=True)
    def order(
        customer: Annotated[str, Field(description="Who orders <em>it</em>", max_length=50)],
        lines: list[Line],
        size: Size = Size.SMALL,
        on: date | None = None,
        express: bool = False,
        gift: bool | None = None,
        weight: float | None = None,
        address: Address | None = None,
        tags: list[str] = [],  # noqa: B006 - as a default in the schema
        colours: list[Size] | None = None,
        frame: Frame = Frame(),  # noqa: B008 - injected
    ) -> dict[str, object]:
        """Order something."""
        given = {name: value for name, value in locals().items() if name not in ("frame", "server")}
        return {"user": frame.user.get_username(), **given}

    @server.tool
    def fail(text: str) -> str:
        raise ToolError(f"{text} {SCRIPT}")

    @server.tool
    def explode() -> str:
        raise RuntimeError("secret")

    @server.tool(permission="auth.view_user")
    def guarded() -> str:
        return "guarded"

    @server.tool(scopes={"write"})
    def scoped() -> str:
        return "scoped"

    @server.tool
    async def count(to: int, frame: Frame) -> str:
        for number in range(to):
            await frame.client.aprogress(number + 1, to, f"step {number + 1}")
        return "counted"

    @server.tool(requests_input=True)
    def ask(frame: Frame) -> str:
        """Ask two questions, one after the other."""
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name"],
        }
        first = frame.client.elicit("Who are you?", schema, key="who")
        if not first.accepted:
            return f"not told: {first.action}"
        second = frame.client.elicit_url("Look here", "https://site.example/page", key="page")
        return f"{first.content} {second.action}"

    @server.tool(task_support="required")
    async def slow(frame: Frame) -> str:
        await frame.client.aprogress(1, 2, "half of it")
        answer = await frame.client.aelicit("Go on?", {"type": "object", "properties": {}})
        await asyncio.sleep(0)
        return f"slowly: {answer.action}"

    @server.tool
    def picture() -> Response:
        answer = Response.tool().text(SCRIPT).image(PIXEL, "image/png")
        return answer.resource_link("javascript:alert(1)", "bad").resource_link(
            "https://site.example/", "good"
        )

    @server.tool
    def price(amount: Decimal, branch: Branch | None = None) -> list[str]:
        return [str(amount), str(branch and branch.branches[0].name)]

    @server.tool(
        input_schema={
            "type": "object",
            "properties": {"kind": {"enum": [1, "two", None]}, "size": {"type": "integer"}},
            "required": ["kind", "size"],
        }
    )
    def classic(params: dict[str, object]) -> dict[str, object]:
        return params

    @server.tool
    async def wait(frame: Frame) -> str:
        """Wait until the call is cancelled."""
        try:
            await frame.client.aprogress(1, None, "waits")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            CANCELLED.set()
            raise
        return "waited"

    @server.tool(approval=Approval("auth.add_user"))
    def pay(frame: Frame) -> str:
        return f"paid by {frame.user.get_username()}"

    @server.resource("workshop://item/{number}{?form}")
    def item(number: int, form: str = "short") -> str:
        return f"item {number} {form}"

    @server.prompt
    def explain(what: str, size: Size = Size.SMALL) -> str:
        """Explain it."""
        return f"Explain {what} {size}"
