"""Headers that come twice, hosts, and pages of other sites."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import Client as Browser
from pytest_django import Settings

from django_mcp import Server, routing
from tests.by_hand.people import ByHeader, Person, bearer, problems
from tests.memory_stores import Configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION


@spec("isolation-16")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("host", ["testserver", "localhost"]),
        ("origin", ["http://testserver", "http://localhost"]),
        ("authorization", ["Bearer 1", "Bearer 2"]),
    ],
)
async def test_header_with_two_values_is_rejected(name: str, values: list[str]) -> None:
    server = Server("shop", authenticators=[ByHeader(Person(1), Person(2))])

    @server.tool
    def public() -> str:
        return ""

    usual = {} if name == "authorization" else bearer(1)
    peer = AsgiClient(server, headers=usual)
    pairs = [(name, value) for value in values]

    response = await peer.post(peer.request("tools/list"), {name: None}, extra=pairs)

    assert response.status == 400


@spec("isolation-17")
async def test_two_session_ids_are_rejected() -> None:
    server = Server("shop")
    one, other = AsgiClient(server, NEWEST_SESSION), AsgiClient(server, NEWEST_SESSION)
    await one.initialize()
    await other.initialize()
    assert other.session is not None

    response = await one.post(one.request("ping"), extra=[("mcp-session-id", other.session)])

    assert response.status == 400


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mcp-protocol-version", ["2025-11-25", "2025-06-18"]),
        ("mcp-protocol-version", ["2025-06-18", "2025-11-25"]),
    ],
)
async def test_two_versions_in_a_session_are_rejected(name: str, values: list[str]) -> None:
    peer = AsgiClient(Server("shop"), NEWEST_SESSION)
    await peer.initialize()

    response = await peer.post(
        peer.request("ping", id=5), extra=[(name, value) for value in values]
    )

    assert (response.status, response.answer.get("id")) == (400, 5)


async def test_header_that_repeats_its_value_is_accepted() -> None:
    peer = AsgiClient(Server("shop"))
    pairs = [
        ("host", "testserver"),
        ("origin", "http://testserver"),
        ("origin", "http://testserver"),
    ]

    response = await peer.post(peer.request("server/discover"), extra=pairs)

    assert response.status == 200


@pytest.mark.django_db  # Checks of models look at the database.
def test_wildcard_in_allowed_hosts_is_reported_at_deployment(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]
    before = {message.id for message in problems(deploy=True)}
    settings.ALLOWED_HOSTS = ["*"]

    assert {message.id for message in problems(deploy=True)} - before == {"django_mcp.W010"}


@spec("isolation-18")
@pytest.mark.django_db(transaction=True)
async def test_stream_for_a_page_of_another_site_is_rejected(
    configure: Configure, django_user_model: Any
) -> None:
    configure(
        HTTP_SSE=True,
        AUTHENTICATORS=["django_mcp.auth.django_session.DjangoSessionAuthentication"],
    )

    def log_in() -> str:
        browser = Browser()
        browser.force_login(django_user_model.objects.create_user("ann"))
        return str(browser.cookies["sessionid"].value)

    cookie = await database_sync_to_async(log_in)()
    server = Server("shop")
    path, application = next(
        item for item in routing.endpoints(server).items() if item[0].endswith("/sse")
    )
    peer = AsgiClient(server, "2024-11-05", application=application, path=path)
    peer.headers = {"cookie": f"sessionid={cookie}"}
    async with peer.open_get({"sec-fetch-site": "same-origin"}) as own:
        assert await own.status() == 200
    for site in ("cross-site", "same-site"):
        async with peer.open_get({"sec-fetch-site": site}) as foreign:
            assert await foreign.status() == 403
