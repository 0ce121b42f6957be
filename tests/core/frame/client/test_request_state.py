"""Request state is bound to one principal and one request, and expires."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import Frame, Server
from django_mcp.testing import Client
from django_mcp.testing.plugin import TRANSPORTS
from tests.constants import SetConstants
from tests.spec import spec

pytestmark = pytest.mark.usefixtures("configure")

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ALICE = {"action": "accept", "content": {"name": "Alice"}}
over_all_transports = pytest.mark.parametrize("mcp_transport", TRANSPORTS)


class Member(AnonymousUser):
    """An authenticator that names the user."""

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


def client_of(server: Server, user: int, transport: Any = "memory") -> Client:
    return Client(server, user=Member(user), transport=transport, elicitation=ALICE)


async def send_once(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """The response to one request."""
    answer = await client.send(client.message(method, params))
    assert answer is not None
    return answer


@spec(
    "2026/JR-09",
    "2026/JR-10",
    "2026/STD-04",
    "2026/HTTP-08",
    "2026/MRTR-01",
    "2026/MRTR-02",
    "2026/MRTR-03",
    "2026/MRTR-14",
    "2026/TOOL-13",
    "2026/RES-07",
    "2026/PRM-06",
)
@over_all_transports
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "greet"}),
        ("prompts/get", {"name": "greet"}),
        ("resources/read", {"uri": "shop://door"}),
    ],
)
async def test_input_required_result_contains_input_requests_but_no_content(
    mcp_transport: Any, method: str, params: dict[str, Any]
) -> None:
    async with client_of(shop(), 1, mcp_transport) as client:
        result = (await send_once(client, method, **params))["result"]

    assert result["resultType"] == "input_required"
    assert result["inputRequests"]["name"]["method"] == "elicitation/create"
    assert not {"ttlMs", "cacheScope", "content", "contents", "messages"} & set(result)


@spec("2026/ST-04", "2026/MRTR-07", "2026/ELI-06", "2026/ELI-11")
@over_all_transports
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
async def test_request_state_is_rejected_for_another_caller_or_request(
    mcp_transport: Any, user: int, method: str, params: dict[str, Any]
) -> None:
    server = shop()

    async with client_of(server, 1, mcp_transport) as client:
        state = (await send_once(client, "tools/call", name="greet"))["result"]["requestState"]
    async with client_of(server, user, mcp_transport) as client:
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        response = await send_once(client, method, **params, **answers)
        right = (
            await send_once(client, "tools/call", name="greet", **answers) if user == 1 else None
        )

    assert response["error"]["code"] == -32602
    assert right is None or right["result"]["content"][0]["text"] == "Hello, Alice!"


@spec("2026/ST-03")
@over_all_transports
async def test_request_state_is_valid_on_another_worker_and_after_key_rotation(
    mcp_transport: Any, settings: Any
) -> None:
    async with client_of(shop(), 1, mcp_transport) as client:
        state = (await send_once(client, "tools/call", name="greet"))["result"]["requestState"]
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a newer one"
    async with client_of(shop(), 1, mcp_transport) as client:
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        result = (await send_once(client, "tools/call", name="greet", **answers))["result"]

    assert result["content"][0]["text"] == "Hello, Alice!"


@spec("2026/ST-05", "2026/MRTR-07")
async def test_expired_request_state_is_rejected(
    set_constants: SetConstants, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(REQUEST_STATE_LIFETIME=60)
    now = 1_000_000.0
    monkeypatch.setattr("django.core.signing.time.time", lambda: now)

    async with client_of(shop(), 1) as client:
        state = (await send_once(client, "tools/call", name="greet"))["result"]["requestState"]
        answers = {"inputResponses": {"name": ALICE}, "requestState": state}
        now += 59
        fresh = await send_once(client, "tools/call", name="greet", **answers)
        now += 2
        expired = await send_once(client, "tools/call", name="greet", **answers)

    assert "result" in fresh
    assert expired["error"]["code"] == -32602


@spec("2026/META-03", "2026/MRTR-15")
async def test_retry_is_rejected_when_it_declares_no_matching_capability() -> None:
    server = shop()

    async with client_of(server, 1) as client:
        result = (await send_once(client, "tools/call", name="greet"))["result"]
    async with Client(server, user=Member(1), capabilities={"elicitation": {"url": {}}}) as client:
        message = client.message(
            "tools/call", {"name": "greet", "requestState": result["requestState"]}
        )
        response = await client.send(message)

    assert response is not None
    assert response["error"]["code"] == -32021
