"""Errors have the id of their request."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import routing
from tests.by_hand.catalog import in_session, shop
from tests.memory_stores import Configure
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS, encoded


async def test_error_for_a_listen_request_without_stream_has_its_id() -> None:
    peer = AsgiClient(shop())

    response = await peer.post(
        peer.listen(5, toolsListChanged=True), {"accept": "application/json"}
    )

    assert response.status == 406
    assert response.answer.get("id") == 5


async def test_error_for_an_unknown_version_has_the_id_of_its_request() -> None:
    peer = AsgiClient(shop(), NEWEST_SESSION)

    response = await peer.post(
        peer.request("tools/list", id=5), {"mcp-protocol-version": "2099-01-01"}
    )

    assert response.status == 400
    assert response.answer.get("id") == 5


@pytest.mark.parametrize(("named", "status"), [(None, 400), ("unknown", 404)])
async def test_error_for_a_missing_session_has_the_id_of_its_request(
    named: str | None, status: int
) -> None:
    peer = AsgiClient(shop(), NEWEST_SESSION, session=named)

    response = await peer.post(peer.request("ping", id=5))

    assert response.status == status
    assert response.answer.get("id") == 5


@pytest.mark.parametrize("version", ["2099-01-01", "garbage"])
async def test_error_for_a_wrong_version_in_a_session_has_the_id_of_its_request(
    version: str,
) -> None:
    peer = await in_session()

    response = await peer.post(peer.request("ping", id=5), {"mcp-protocol-version": version})

    assert response.answer.get("id") == 5


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_error_for_a_wrong_accept_header_has_the_id_of_its_request(version: str) -> None:
    peer = AsgiClient(shop(), version)
    if version != STATELESS:
        await peer.initialize()

    response = await peer.post(peer.request("tools/list", id=0), {"accept": "text/html"})

    assert response.status == 406
    assert response.answer.get("id") == 0


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_error_for_a_wrong_content_type_has_the_id_of_its_request(version: str) -> None:
    peer = await in_session(version=version) if version != STATELESS else AsgiClient(shop())

    response = await peer.post(peer.request("tools/list", id=5), {"content-type": "text/plain"})

    assert (response.status, response.answer.get("id")) == (415, 5)


async def test_error_for_an_unknown_connection_has_the_id_of_its_request(
    configure: Configure,
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(shop())
    peer = AsgiClient(
        shop(), "2024-11-05", application=found["/shop/messages"], path="/shop/messages"
    )

    response = await peer.post(peer.request("ping", id=5))

    assert (response.status, response.answer.get("id")) == (400, 5)


@pytest.mark.parametrize(
    "message", [{"jsonrpc": "2.0", "method": "x"}, {"jsonrpc": "2.0", "id": 5, "result": {}}, 5]
)
async def test_error_for_what_is_no_request_has_no_id(message: Any) -> None:
    peer = AsgiClient(shop(), NEWEST_SESSION)

    response = await peer.post(encoded(message))

    assert response.status == 400
    assert response.answer.get("id") is None


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_error_for_half_a_surrogate_pair_has_the_id_of_its_request(version: str) -> None:
    peer = await in_session() if version == NEWEST_SESSION else AsgiClient(shop())

    response = await peer.post(peer.call("echo", text="\ud83d", id=5))

    assert response.status == 400
    assert response.answer["id"] == 5
    assert response.answer["error"]["code"] == -32600
    assert "half of a surrogate pair" in response.answer["error"]["message"]
