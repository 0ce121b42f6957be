"""The server of all transcripts."""

from __future__ import annotations

import asyncio
from datetime import date

from pydantic import BaseModel, Field

from django_mcp import (
    AudioContent,
    EmbeddedResource,
    Frame,
    ImageContent,
    Message,
    ResourceLink,
    ResourceNotFound,
    Server,
    TextContent,
    ToolError,
    UrlElicitationRequired,
)


class Ticket(BaseModel):
    number: int
    opened: date


class Caller(BaseModel):
    name: str = Field("Ann", description="Whom to greet", max_length=20)
    formal: bool = False


SIZES = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "Middle"}],
        }
    },
    "required": ["size"],
}


def desk() -> Server:
    """Create one for each transcript: it shares no state with the others."""
    server = Server(
        "desk",
        title="The desk",
        version="2.0",
        instructions="Begin with tickets.",
        page_size=4,
    )
    _add_tools(server)
    _add_input_requests(server)

    @server.resource("desk://hours", title="Opening hours", mime_type="text/plain")
    def hours() -> str:
        """When somebody is there."""
        return "9 to 5"

    @server.resource("desk://tickets/{number}", mime_type="application/json")
    def ticket_of(number: int) -> Ticket:
        """One ticket."""
        if number != 7:
            raise ResourceNotFound.at(f"desk://tickets/{number}")
        return Ticket(number=7, opened=date(2026, 7, 28))

    @server.prompt(title="Sum up", complete={"number": lambda typed: ["7", "70", "77"]})
    def sum_up(number: int) -> list[Message]:
        """What a ticket is about."""
        link = ResourceLink(f"desk://tickets/{number}", f"ticket {number}")
        return [Message("user", "Sum this ticket up."), Message("user", link)]

    return server


def _add_tools(server: Server) -> None:
    @server.tool(title="Find a ticket", read_only=True, order=1)
    def ticket(number: int) -> Ticket:
        """Find a ticket by its number."""
        if number != 7:
            raise ToolError(f"There is no ticket {number}. Try 7.")
        return Ticket(number=number, opened=date(2026, 7, 28))

    @server.tool(order=2)
    async def count(to: int, frame: Frame) -> str:
        """Count, and say how far it has come."""
        for number in range(1, to + 1):
            await frame.client.aprogress(number, to, f"at {number}")
        await frame.client.alog("info", "counted", data={"to": to})
        return str(to)

    @server.tool(order=3)
    def show() -> list[TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource]:
        """Show something of every kind."""
        return [
            TextContent("Look", annotations={"audience": ["user"], "lastModified": "2026-07-28"}),
            ImageContent(b"PNG", "image/png"),
            AudioContent(b"WAV", "audio/wav"),
            ResourceLink("desk://hours", "hours", description="When somebody is there"),
            EmbeddedResource("desk://note", text="A note", mime_type="text/plain"),
        ]

    @server.tool(order=4)
    def crash() -> str:
        """Fail as nobody foresaw."""
        raise LookupError("the password is swordfish")

    @server.tool(order=5)
    async def move() -> str:
        """Open at other hours, and at another place."""
        await server.anotify_resource_updated("desk://hours")
        await server.anotify_resource_updated("desk://tickets/7")
        await server.anotify_prompts_list_changed()
        return "moved"

    @server.tool(order=6)
    async def wait(frame: Frame) -> str:
        """Wait for ever."""
        await frame.client.aprogress(1)
        await asyncio.get_running_loop().create_future()
        return "never"


def _add_input_requests(server: Server) -> None:
    paid: list[bool] = []

    @server.tool(order=7)
    async def greet(frame: Frame) -> str:
        """Greet somebody."""
        answer = await frame.client.aelicit("Who are you?", Caller, key="caller")
        if not answer.accepted:
            return "Nobody was greeted."
        return f"{'Good day' if answer.content.formal else 'Hello'}, {answer.content.name}!"

    @server.tool(order=8)
    async def order(frame: Frame) -> str:
        """Order a coffee."""
        answer = await frame.client.aelicit("Which size?", SIZES, key="size")
        return f"One coffee, {answer.content['size']}."

    @server.tool(order=9)
    async def think(frame: Frame) -> str:
        """Let the client's model think."""
        sampled = await frame.client.acreate_message("Is it late?", 20, key="late")
        return sampled.text

    @server.tool(order=10)
    def enter() -> str:
        """Enter, when the entrance has been paid."""
        if paid:
            return "Welcome."
        paid.append(True)
        raise UrlElicitationRequired.at(
            "https://desk.example/pay", "Please pay first.", elicitation_id="visit-1"
        )
