"""A conversation of each revision with the server of the transcripts, and what came back.

The lines are the same each time: what is unpredictable is replaced, and what may come in any order
is sorted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import httpx
import pytest

from django_mcp.core.protocol.revisions import BY_VERSION
from tests.waiting import SECONDS
from tests.wire.live import LiveClient, events, request
from tests.wire.messages import STATELESS, Message

TIMEOUT = SECONDS
UNPREDICTABLE = ("nextCursor", "requestState", "elicitationId")
CAPABILITIES: Message = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
HOURS = "desk://hours"
BATCHES = "2025-03-26"
ELICITATION = "2025-06-18"

REQUESTS: Sequence[tuple[str, Message]] = (
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": HOURS}),
    ("resources/read", {"uri": "desk://tickets/7"}),
    ("resources/read", {"uri": "desk://tickets/8"}),
    ("prompts/get", {"name": "sum_up", "arguments": {"number": "7"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "sum_up"},
            "argument": {"name": "number", "value": "7"},
        },
    ),
    ("tools/call", {"name": "ticket", "arguments": {"number": 7}}),
    ("tools/call", {"name": "ticket", "arguments": {"number": 8}}),
    ("tools/call", {"name": "ticket", "arguments": {}}),
    ("tools/call", {"name": "show", "arguments": {}}),
    ("tools/call", {"name": "crash", "arguments": {}}),
    ("tools/call", {"name": "nobody", "arguments": {}}),
    ("tools/call", {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "p"}}),
    ("nobody/knows", {}),
)
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Bo", "formal": True}},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "small",
        "content": {"type": "text", "text": "Rather."},
    },
}


async def transcript(url: str, version: str) -> list[str]:
    """Every status and message of a conversation, in which each request may reach any worker."""
    async with (
        asyncio.timeout(TIMEOUT),
        httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as http,
    ):
        conversation = Conversation(LiveClient(http, f"{url}/desk", version, **CAPABILITIES))
        if version == STATELESS:
            await conversation.hold_stateless()
        else:
            await conversation.hold_in_session()
        return conversation.lines


class Conversation:
    """What was written so far."""

    def __init__(self, peer: LiveClient) -> None:
        self.peer = peer
        self.lines: list[str] = []

    async def hold_in_session(self) -> None:
        peer = self.peer
        self._write("initialize", await peer.initialize())
        await self._ask_everything()
        await self._ask_pages()
        await self._set_level()
        await self._resume()
        if peer.version >= ELICITATION:
            await self._question("greet")
        await self._question("think")
        await self._cancel()
        await self._listen_for()
        if peer.version == BATCHES:
            batch = [request("ping", id="b1"), request("tools/list", {}, id="b2")]
            await self._post("batch", batch)
        await self._post("nonsense", {"jsonrpc": "2.0"})
        await peer.delete()
        await self._post("after its end", request("ping", id="late"))

    async def hold_stateless(self) -> None:
        await self._post("server/discover", request("server/discover", id="hello"))
        await self._ask_everything()
        await self._ask_pages()
        await self._retry("greet")
        await self._retry("think")
        await self._listen()
        await self._post("a made up state", self._call("greet", requestState="x"))

    async def _ask_everything(self) -> None:
        for number, (method, params) in enumerate(REQUESTS):
            await self._post(method, request(method, params, id=number))

    async def _ask_pages(self) -> None:
        cursor: str | None = ""
        while cursor is not None:
            page = await self.peer.ask("tools/list", {"cursor": cursor} if cursor else {})
            self._write("page", page)
            cursor = page.get("nextCursor")

    async def _set_level(self) -> None:
        await self._post("level", request("logging/setLevel", {"level": "error"}, id="level"))
        await self._post("no log", request("tools/call", REQUESTS[15][1], id="quiet"))

    async def _resume(self) -> None:
        """Read a stream again, after its first message; in older revisions events have no ids."""
        params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "r"}}
        ids = []
        async with self.peer.opened(request("tools/call", params, id="resumed")) as response:
            async for event in events(response):
                if event.data:
                    ids.append(event.id)
        if ids[0]:
            async with self.peer.resuming(ids[0]) as response:
                self._write("resumed", [each async for each in messages(response)])

    async def _question(self, tool: str) -> None:
        found = []
        async with self.peer.opened(self._call(tool)) as response:
            async for message in messages(response):
                found.append(message)
                if "method" in message and "id" in message:
                    result = ANSWERS[message["method"]]
                    await self.peer.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self._write(tool, [{**each, "id": "any"} if "method" in each else each for each in found])

    async def _retry(self, tool: str) -> None:
        requested = await self.peer.ask("tools/call", {"name": tool, "arguments": {}})
        self._write(tool, requested)
        given = {key: ANSWERS[each["method"]] for key, each in requested["inputRequests"].items()}
        state = {"requestState": requested["requestState"], "inputResponses": given}
        await self._post(f"{tool} again", self._call(tool, **state))

    async def _cancel(self) -> None:
        message = self._call("wait", _meta={"progressToken": "w"})
        async with self.peer.opened(message) as response:
            received = messages(response)
            found = [await anext(received)]
            await self.peer.notify("notifications/cancelled", requestId=message["id"])
            found += [each async for each in received]
        self._write("cancelled", found)

    async def _listen_for(self) -> None:
        """What is announced, on the session's stream."""
        await self.peer.ask("resources/subscribe", {"uri": HOURS})
        async with self.peer.resuming(None) as response:
            assert response.status_code == 200
            await self._move(messages(response))

    async def _listen(self) -> None:
        wanted = {"promptsListChanged": True, "resourceSubscriptions": [HOURS]}
        message = request("subscriptions/listen", {"notifications": wanted}, id="listen")
        async with self.peer.opened(message) as response:
            received = messages(response)
            self._write("listen", await anext(received))
            await self._move(received)

    async def _move(self, received: AsyncIterator[Message]) -> None:
        await self._post("move", self._call("move"))
        # The same is announced by conversations that are held meanwhile.
        found: set[str] = set()
        while len(found) < 2:
            found.add(json.dumps(await anext(received), sort_keys=True))
        self._write("reached", sorted(found))

    def _call(self, tool: str, **params: Any) -> Message:
        described = {"name": tool, "arguments": {}, **params}
        return request("tools/call", described, id=f"call {tool}")

    async def _post(self, title: str, message: Any) -> None:
        """Post anything, and write the status with what comes."""
        sent = self.peer.described(message) if isinstance(message, dict) else message
        headers = self.peer.headers_of(sent)
        response = await self.peer.http.post(self.peer.url, json=sent, headers=headers)
        self._write(f"{title}: {response.status_code}", list(contents(response)))

    def _write(self, title: str, found: Any) -> None:
        self.lines.append(f"{title}: {json.dumps(predictable(found), sort_keys=True)}")


async def messages(
    response: httpx.Response, ids: list[str] | None = None
) -> AsyncIterator[Message]:
    """The messages of a stream; ``ids`` gets the ids of its events."""
    async for event in events(response):
        if ids is not None and event.id:
            ids.append(event.id)
        if event.data:
            yield json.loads(event.data)


def contents(response: httpx.Response) -> Iterator[Any]:
    """The messages of a response, be it JSON or a stream."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        for line in response.text.splitlines():
            if line.startswith("data:") and line[5:].strip():
                yield json.loads(line[5:])
    elif response.content:
        yield response.json()


def predictable(value: Any) -> Any:
    """Without what differs each time."""
    if isinstance(value, dict):
        return {
            name: "..." if name in UNPREDICTABLE else predictable(member)
            for name, member in value.items()
        }
    return [predictable(each) for each in value] if isinstance(value, list) else value


EACH_TIME = ("2025-11-25", "2026-07-28")
"""With a session, and without one; the other versions run in the night."""
VERSIONS = [
    pytest.param(version, marks=() if version in EACH_TIME else pytest.mark.nightly)
    for version in BY_VERSION
]
