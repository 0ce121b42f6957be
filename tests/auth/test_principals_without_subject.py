"""Principals without a subject, and log records of others' requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.log import ClientHandler
from tests.by_hand.people import ByHeader, Person, bearer
from tests.memory_stores import configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient, Reply
from tests.wire.messages import META, NEWEST_SESSION, STATELESS

__all__ = ["configure"]


@pytest.fixture
def vault() -> Iterator[logging.Logger]:
    """A logger whose records are sent to the client that is being answered."""
    logger = logging.getLogger("vault")
    handler = ClientHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger
    logger.removeHandler(handler)


def logs(response: Reply) -> str:
    return str([each for each in response.messages if each.get("method", "").endswith("message")])


@spec("isolation-08")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_log_lines_for_a_listener_are_sent_to_nobody_else(
    version: str, vault: logging.Logger
) -> None:
    server = Server("shop", authenticators=[ByHeader(Person(1), Person(2))])
    looked: list[int] = []

    def may_see(frame: Frame) -> bool:
        looked.append(frame.user.pk)
        vault.error("May user %s peek?", frame.user.pk)
        return True

    @server.resource("vault://fn", permission=may_see)
    def read() -> str:
        return ""

    @server.tool
    async def change(frame: Frame) -> str:
        await server.anotify_resource_updated("vault://fn")
        for _ in range(50):
            await asyncio.sleep(0.01)
            if looked.count(1):
                break
        await asyncio.sleep(0.1)
        return "done"

    listener = AsgiClient(server, version, headers=bearer(1))
    other = AsgiClient(server, headers=bearer(2))
    if version == STATELESS:
        stream = listener.open_post(listener.listen(resourceSubscriptions=["vault://fn"]))
    else:
        await listener.initialize()
        subscribe = listener.request("resources/subscribe", {"uri": "vault://fn"})
        await listener.post(subscribe)
        stream = listener.open_get()
    async with stream:
        await stream.status()
        looked.clear()
        response = await other.tool("change", params={"_meta": {META + "logLevel": "debug"}})

    assert 1 in looked, "The listener's permission was not looked at"
    assert "peek" not in logs(response)


async def test_nothing_is_logged_to_a_client_before_its_component_is_found(
    vault: logging.Logger,
) -> None:
    server = Server("shop")

    def nobody(frame: Frame) -> bool:
        vault.error("The secret tool is not for you")
        return False

    @server.tool(permission=nobody)
    def secret() -> str:
        return ""

    response = await AsgiClient(server).tool(
        "secret", params={"_meta": {META + "logLevel": "debug"}}
    )

    assert logs(response) == "[]"


@spec("isolation-09")
async def test_users_without_a_subject_are_not_one_principal() -> None:
    authenticator = ByHeader(Person(1), Person(2), subject=False)
    server = Server("shop", authenticators=[authenticator])

    @server.tool
    async def remember(frame: Frame) -> Any:
        return "done", frame.assign("secret", "of user 1")

    @server.tool
    async def recall(frame: Frame) -> str:
        return str(frame.assigns.get("secret"))

    one = AsgiClient(server, NEWEST_SESSION, headers=bearer(1))
    opened = await one.initialize()
    if opened.status != 200:
        return  # The absence of a subject is an error.
    await one.tool("remember")
    other = AsgiClient(server, NEWEST_SESSION, headers=bearer(2), session=one.session)
    response = await other.tool("recall")

    assert response.status == 404
