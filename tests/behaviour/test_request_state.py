"""The state of a round belongs to one caller, one request and a short while."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import Frame, Server
from django_mcp.testing import Client
from django_mcp.testing.plugin import TRANSPORTS
from tests.behaviour.conftest import Configure

pytestmark = pytest.mark.usefixtures("configure")

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ALICE = {"action": "accept", "content": {"name": "Alice"}}
over_all = pytest.mark.parametrize("mcp_transport", TRANSPORTS)


class Member(AnonymousUser):
    """Somebody whom an authenticator knows by name."""

    def __init__(self, pk: int) -> None:
        self.pk = pk  # type: ignore[assignment]


def shop() -> Server:
    server = Server("shop")

    async def greet(frame: Frame) -> str:
        answer = await frame.client.aelicit("Who are you?", NAME, key="name")
        return f"Hello, {answer.content['name']}!"

    server.tool(greet)
    server.tool(name="welcome")(greet)
    server.prompt(greet)
    server.resource("shop://door", name="door")(greet)
    return server


def asking(server: Server, user: int, transport: Any = "memory") -> Client:
    return Client(server, user=Member(user), transport=transport, elicitation=ALICE)


async def once(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """The answer to one single request."""
    answer = await client.send(client.message(method, params))
    assert answer is not None
    return answer


@over_all
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "greet"}),
        ("prompts/get", {"name": "greet"}),
        ("resources/read", {"uri": "shop://door"}),
    ],
)
async def test_what_may_ask_is_answered_in_rounds(
    mcp_transport: Any, method: str, params: dict[str, Any]
) -> None:
    async with asking(shop(), 1, mcp_transport) as client:
        result = (await once(client, method, **params))["result"]

    assert result["resultType"] == "input_required"
    assert result["inputRequests"]["name"]["method"] == "elicitation/create"
    assert not {"ttlMs", "cacheScope", "content", "contents", "messages"} & set(result)


@over_all
@pytest.mark.parametrize(
    ("user", "method", "params"),
    [
        (2, "tools/call", {"name": "greet"}),
        (1, "tools/call", {"name": "welcome"}),
        (1, "tools/call", {"name": "greet", "arguments": {}}),
        (1, "prompts/get", {"name": "greet"}),
    ],
    ids=["another caller", "another tool", "other arguments", "another method"],
)
async def test_a_state_is_good_for_nothing_else(
    mcp_transport: Any, user: int, method: str, params: dict[str, Any]
) -> None:
    server = shop()

    async with asking(server, 1, mcp_transport) as client:
        state = (await once(client, "tools/call", name="greet"))["result"]["requestState"]
    async with asking(server, user, mcp_transport) as client:
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        refused = await once(client, method, **params, **answers)
        right = await once(client, "tools/call", name="greet", **answers) if user == 1 else None

    assert refused["error"]["code"] == -32602
    assert right is None or right["result"]["content"][0]["text"] == "Hello, Alice!"


@over_all
async def test_a_state_is_good_on_any_worker_and_after_a_new_key(
    mcp_transport: Any, settings: Any
) -> None:
    async with asking(shop(), 1, mcp_transport) as client:
        state = (await once(client, "tools/call", name="greet"))["result"]["requestState"]
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a newer one"
    async with asking(shop(), 1, mcp_transport) as client:
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        result = (await once(client, "tools/call", name="greet", **answers))["result"]

    assert result["content"][0]["text"] == "Hello, Alice!"


async def test_a_state_grows_too_old(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(REQUEST_STATE_LIFETIME=60)
    now = 1_000_000.0
    monkeypatch.setattr("django.core.signing.time.time", lambda: now)

    async with asking(shop(), 1) as client:
        state = (await once(client, "tools/call", name="greet"))["result"]["requestState"]
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        now += 59
        young = await once(client, "tools/call", name="greet", **answers)
        now += 2
        old = await once(client, "tools/call", name="greet", **answers)

    assert "result" in young
    assert old["error"]["code"] == -32602


async def test_what_the_client_can_do_is_what_it_says_this_time() -> None:
    server = shop()

    async with asking(server, 1) as client:
        result = (await once(client, "tools/call", name="greet"))["result"]
    async with Client(server, user=Member(1), capabilities={"elicitation": {"url": {}}}) as client:
        message = client.message(
            "tools/call", {"name": "greet", "requestState": result["requestState"]}
        )
        refused = await client.send(message)

    assert refused is not None
    assert refused["error"]["code"] == -32021
