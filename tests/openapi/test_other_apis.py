"""Ninja Extra, django-modern-rest and versions of an API: tools answer as the API does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from django_mcp import Server
from django_mcp.openapi import availability, openapi_tools
from django_mcp.testing import ErrorResponse, SyncClient
from tests.installed_apps import installed

JSON = "application/json"


@pytest.fixture(autouse=True)
def _apis(_urls: None, settings: Any) -> Iterator[None]:
    with installed("ninja_extra"):
        settings.ROOT_URLCONF = "tests.openapi.other_apis"
        yield


@pytest.fixture
def apis() -> Any:
    from tests.openapi import other_apis

    return other_apis


@pytest.fixture
def browser(callers: dict[str, Any]) -> Browser:
    """Of a user who is logged in by session."""
    found: Browser = callers["session"][0]
    return found


def of_agent(server: Server, callers: dict[str, Any]) -> SyncClient:
    """A client of the same user."""
    return SyncClient(server, transport="http", headers=callers["session"][1])


@pytest.mark.django_db(transaction=True)
def test_controllers_of_ninja_extra_answer_as_over_http(
    server: Server, callers: dict[str, Any], browser: Browser, apis: Any
) -> None:
    openapi_tools(apis.extra, read_only=False, answer="full", server=server)
    with of_agent(server, callers) as client:
        listed = client.call_tool("cup_list_cups", {"search": "gr"})
        one = client.call_tool("cup_get_cup", {"cup_id": 4})
        made = client.call_tool("cup_create_cup", {"name": "Jug", "price": 5})
        refused = client.call_tool("cup_of_staff")
        wrong = client.call_tool("cup_create_cup", {"name": "Jug", "price": "a lot"})
    assert listed.structured == browser.get("/extra/cups/?search=gr").json()
    assert one.structured == browser.get("/extra/cups/4/async").json()
    data = {"name": "Jug", "price": 5}
    assert made.structured == browser.post("/extra/cups/", data, content_type=JSON).json()
    assert browser.get("/extra/cups/staff").status_code == 403
    assert refused.is_error
    assert wrong.is_error
    assert "price" in wrong.text


@pytest.mark.django_db(transaction=True)
def test_names_of_ninja_extra_have_no_random_end(server: Server, apis: Any) -> None:
    openapi_tools(apis.extra, read_only=False, server=server)
    with SyncClient(server) as client:
        names = {tool["name"] for tool in client.list_tools()}
    assert names == {"cup_list_cups", "cup_create_cup", "cup_get_cup", "cup_of_staff"}


@pytest.mark.django_db(transaction=True)
def test_router_of_modern_rest_answers_as_over_http(
    server: Server, callers: dict[str, Any], browser: Browser, apis: Any
) -> None:
    openapi_tools(apis.modern, read_only=False, answer="full", server=server)
    with of_agent(server, callers) as client:
        names = {tool["description"]: tool["name"] for tool in client.list_tools()}
        pots = names.pop("List the pots.")
        pot = names.pop("Look at a pot.")
        (post,) = names.values()
        listed = client.call_tool(pots, {"search": "ir"})
        one = client.call_tool(pot, {"pot_id": 4})
        made = client.call_tool(post, {"name": "Clay", "price": 5})
        wrong = client.call_tool(post, {"name": "Clay", "price": "a lot"})
    assert listed.structured == browser.get("/modern/pots/?search=ir").json()
    assert one.structured == browser.get("/modern/pots/4/").json()
    data = {"name": "Clay", "price": 5}
    assert made.structured == browser.post("/modern/pots/", data, content_type=JSON).json()
    assert wrong.is_error
    assert "price" in wrong.text


@pytest.mark.django_db(transaction=True)
def test_router_of_modern_rest_asks_anonymous_callers_to_log_in(server: Server, apis: Any) -> None:
    openapi_tools(apis.modern, server=server)
    with SyncClient(server) as client:
        for tool in client.list_tools():
            with pytest.raises(ErrorResponse, match="Authentication required"):
                client.call_tool(tool["name"], {"pot_id": 4} if "pot_id" in str(tool) else {})
    assert Browser().get("/modern/pots/").status_code == 401


@pytest.mark.django_db(transaction=True)
def test_version_of_an_api_is_that_of_its_own_urls(
    server: Server, callers: dict[str, Any], apis: Any
) -> None:
    openapi_tools(apis.first, server=server)
    openapi_tools(apis.second, server=server)
    with of_agent(server, callers) as client:
        old = client.call_tool("list_teas")
        new = client.call_tool("list_teas_of_two")
    assert old.structured == {"version": 1, "path": "/v1/teas"}
    assert new.structured == {"version": 2, "path": "/v2/teas"}


@pytest.mark.django_db(transaction=True)
def test_prefix_chooses_one_of_several_urls(
    server: Server, callers: dict[str, Any], apis: Any
) -> None:
    openapi_tools(apis.second, prefix="latest/", server=server)
    with of_agent(server, callers) as client:
        answer = client.call_tool("list_teas_of_two")
        user = client.call_tool("teas_of", {"username": "agent"})
    assert answer.structured == {"version": 2, "path": "/latest/teas"}
    agent = User.objects.get(username="agent")
    assert user.structured == {"user": agent.pk, "caller": "agent"}


def test_prefix_without_urls_is_reported(server: Server, apis: Any) -> None:
    openapi_tools(apis.second, prefix="v3/", server=server)
    with SyncClient(server) as client:
        assert client.list_tools() == []
    (reason,) = availability.missing(server).values()
    assert "has no URL: its URLs are v2/" in reason
    assert "latest/" in reason
