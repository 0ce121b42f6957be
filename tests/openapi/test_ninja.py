"""Operations of Django Ninja as tools: the API and the tools answer alike, and refuse alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from django_mcp import ConfigurationError, Server
from django_mcp.openapi import availability, openapi_tools
from django_mcp.openapi.sources import ninja
from django_mcp.testing import SyncClient
from tests.openapi import ninja_api
from tests.openapi.conftest import headers_of
from tests.openapi.parity import by_tool
from tests.uploads.files import inline

SEED = 40
CALLS = 300
JSON = "application/json"
OPERATIONS: dict[str, tuple[str, str]] = {
    "list_items": ("get", "/items"),
    "get_item": ("get", "/items/{item_id}"),
    "create_item": ("post", "/items"),
    "change_item": ("patch", "/items/{item_id}"),
    "delete_item": ("delete", "/items/{item_id}"),
    "is_open": ("get", "/open"),
    "devices": ("get", "/devices"),
    "queried": ("get", "/queried"),
    "superusers": ("get", "/superusers"),
    "team": ("get", "/team"),
    "whoami": ("get", "/whoami"),
    "print_label": ("post", "/labels"),
    "get_box": ("get", "/archive/shelves/{shelf}/boxes/{box_id}"),
}
HEADERS = ("x_color",)


@pytest.fixture
def shop(server: Server) -> Server:
    openapi_tools(ninja_api.api, read_only=False, answer="full", server=server)
    return server


def arguments_of(name: str, chosen: random.Random) -> dict[str, Any]:
    """Return arguments of an operation, some of which are invalid."""
    key = {"item_id": chosen.choice([1, 2, 3, 77])}
    data = {"name": chosen.choice(["New", "Sold"]), "price": chosen.choice([1.5, 3])}
    possible: dict[str, list[dict[str, Any]]] = {
        "list_items": [{}, {"search": "t"}, {"limit": 1}, {"ids": [1, 3]}, {"limit": -1}],
        "get_item": [key],
        "create_item": [data, {**data, "stock": 4}, {"name": "x"}],
        "change_item": [{**key, **data}, {**key, "price": 8}, key],
        "delete_item": [key],
        "is_open": [{}, {"x_color": "blue"}],
        "print_label": [{"text": "A&B=é", "copies": 3}, {"text": "x"}, {}],
        "get_box": [{"shelf": "a b", "box_id": 4}, {"shelf": "x", "box_id": 0}],
    }
    return chosen.choice(possible.get(name, [{}]))


def over_http(browser: Browser, name: str, arguments: dict[str, Any]) -> Any:
    """Return what the API answers, or None for a refusal."""
    method, path = OPERATIONS[name]
    url = f"/api/v1{path.format(**arguments)}"
    others = {key: it for key, it in arguments.items() if f"{{{key}}}" not in path}
    sent = {key: others.pop(key) for key in HEADERS if key in others}
    headers = {key.replace("_", "-"): it for key, it in sent.items()}
    if method == "get":
        response = browser.get(url, others, headers=headers)
    elif name == "print_label":
        response = browser.post(url, others)
    else:
        send = getattr(browser, method)
        response = send(url, others, content_type=JSON)
    if response.status_code == 204:
        return "Done."
    return response.json() if response.status_code < 300 else None


def attempt(call: Any, *arguments: Any) -> Any:
    """Return what a call returns, and the items as it leaves them."""
    ninja_api.reset()
    returned = call(*arguments)
    return returned, dict(ninja_api.ITEMS)


def random_calls(callers: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    chosen = random.Random(SEED)
    for _ in range(CALLS):
        name = chosen.choice([*OPERATIONS])
        yield chosen.choice(callers), name, arguments_of(name, chosen)


@pytest.mark.django_db(transaction=True)
def test_random_calls_agree_with_the_api(shop: Server, callers: dict[str, Any]) -> None:
    answered = 0
    with ExitStack() as stack:
        clients = {
            caller: stack.enter_context(SyncClient(shop, transport="http", headers=headers))
            for caller, (_, headers) in callers.items()
        }
        for caller, name, arguments in random_calls([*callers]):
            expected = attempt(over_http, callers[caller][0], name, arguments)
            actual = attempt(by_tool, clients[caller], name, arguments)
            if name == "is_open" and expected[0]:
                expected[0]["sent"] = actual[0]["sent"]
            assert actual == expected, (caller, name, arguments)
            answered += expected[0] is not None
    assert 60 < answered < CALLS - 60


@pytest.mark.django_db(transaction=True)
def test_tools_are_hidden_from_callers_whom_callbacks_refuse(
    shop: Server, callers: dict[str, Any]
) -> None:
    names: dict[str, set[str]] = {}
    for caller, (_, headers) in callers.items():
        with SyncClient(shop, transport="http", headers=headers) as client:
            names[caller] = {tool["name"] for tool in client.list_tools()}
    everything = names["nobody"]
    assert "hidden" not in everything
    assert everything - names["session"] == {"delete_item", "superusers"}
    assert names["token"] == everything - {
        *("delete_item", "superusers", "team", "devices", "queried")
    }
    assert names["device"] == {"devices", "is_open", "slow"}


@pytest.fixture
def client(shop: Server, users: dict[str, User]) -> Iterator[SyncClient]:
    with SyncClient(shop, user=users["staff"]) as connected:
        yield connected


@pytest.mark.django_db(transaction=True)
def test_errors_name_the_arguments(client: SyncClient) -> None:
    result = client.call_tool("change_item", {"item_id": 1, "name": "Sold"})
    assert result.is_error
    assert result.text == ("The request conflicts with the current state.\nmessage: It is sold.")
    arguments = {"title": "Cup", "photo": inline(b"", "a.png")}
    assert client.call_tool("get_item", {"item_id": 77}).text.startswith("Not found.")
    assert client.call_tool("add_photo", arguments).structured["size"] == 0


@pytest.mark.django_db(transaction=True)
def test_invalid_values_are_named_by_their_arguments(client: SyncClient) -> None:
    reserved = client.call_tool("create_item", {"name": "Reserved", "price": 3})
    assert reserved.is_error
    assert reserved.text == "The request is invalid.\nname: Value error, This name is reserved."


@pytest.mark.django_db(transaction=True)
def test_one_tool_writes_and_answers_with_what_was_sent(
    server: Server, users: dict[str, User]
) -> None:
    openapi_tools(
        ninja_api.api,
        read_only=False,
        one_tool_per_view=True,
        include=["change_item", "create_item", "list_items"],
        options={"create_item": {"answer": "full"}},
        server=server,
    )
    with SyncClient(server, user=users["staff"]) as client:
        (tool,) = client.list_tools()
        changed = client.call_tool("items", {"action": "change_item", "item_id": 2, "price": 5})
        new = {"action": "create_item", "name": "Jug", "price": 5}
        created = client.call_tool("items", new)
        missing = client.call_tool("items", {"action": "change_item", "price": 5})
    assert not tool["annotations"]["readOnlyHint"]
    assert changed.structured == {"id": 2, "price": 5}
    assert created.structured["color"] == "red"
    assert ninja_api.ITEMS[2]["price"] == 5
    assert missing.is_error
    assert "item_id" in missing.text


@pytest.mark.django_db(transaction=True)
def test_key_of_a_created_object_is_kept_beside_its_parent(
    server: Server, users: dict[str, User]
) -> None:
    openapi_tools(ninja_api.api, read_only=False, include=["add_box"], server=server)
    with SyncClient(server, user=users["staff"]) as client:
        result = client.call_tool("add_box", {"shelf": "a", "label": "Tea"})
    assert result.structured == {"shelf": "a", "id": 7, "label": "Tea"}


@pytest.mark.parametrize(("answer", "members"), [(None, 6), ("changed", 4), ("full", 6)])
@pytest.mark.django_db(transaction=True)
def test_post_without_status_201_is_shortened_where_the_author_says_so(
    server: Server, users: dict[str, User], answer: Any, members: int
) -> None:
    openapi_tools(
        ninja_api.api, read_only=False, include=["copy_item"], answer=answer, server=server
    )
    with SyncClient(server, user=users["staff"]) as client:
        result = client.call_tool("copy_item", {"name": "Jug", "price": 5})
    assert len(result.structured) == members


@pytest.mark.parametrize("declared", [{"answer": "ful"}, {"options": {"a": {"answer": "ful"}}}])
def test_unknown_answer_is_refused(server: Server, declared: Any) -> None:
    with pytest.raises(ConfigurationError, match="'ful': did you mean 'full'"):
        openapi_tools(ninja_api.api, server=server, **declared)


def test_name_of_what_writes_is_reported(server: Server) -> None:
    openapi_tools(ninja_api.api, include=["get_item", "create_item"], server=server)
    with SyncClient(server) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["get_item"]
    (reason,) = availability.missing(server).values()
    assert "'create_item' is none of the tools, because it writes: give read_only=Fal" in reason


@pytest.mark.django_db(transaction=True)
def test_file_reaches_the_view(client: SyncClient) -> None:
    photo = inline(b"PNG", "a.png", "image/png")
    result = client.call_tool("add_photo", {"title": "Cup", "photo": photo})
    assert result.structured == {"title": "Cup", "size": 3, "type": "image/png"}


@pytest.mark.django_db(transaction=True)
def test_download_is_a_resource(client: SyncClient) -> None:
    (content,) = client.call_tool("report")["content"]
    assert content["resource"]["text"] == "a,b"
    assert content["resource"]["uri"].endswith("/api/v1/report")


@pytest.mark.django_db(transaction=True)
def test_throttle_counts_calls(server: Server) -> None:
    openapi_tools(ninja_api.api, include=["slow"], server=server)
    with SyncClient(server) as client:
        results = [client.call_tool("slow") for _ in range(3)]
    assert [result.is_error for result in results] == [False, False, True]
    assert results[2].text.startswith("Too many requests. Try again in")


@pytest.mark.django_db(transaction=True)
def test_write_answers_with_the_key_and_what_was_sent(
    server: Server, users: dict[str, User]
) -> None:
    openapi_tools(
        ninja_api.api,
        read_only=False,
        include=["create_item", "change_item"],
        options={"create_item": {"answer": "full"}},
        server=server,
    )
    with SyncClient(server, user=users["staff"]) as client:
        changed = client.call_tool("change_item", {"item_id": 2, "price": 5})
        created = client.call_tool("create_item", {"name": "Jug", "price": 5})
    assert changed.structured == {"id": 2, "price": 5}
    assert created.structured["color"] == "red"


@pytest.mark.django_db(transaction=True)
def test_rows_have_the_members_that_are_asked_for(client: SyncClient) -> None:
    rows = client.call_tool("list_items", {"fields": ["id", "name"], "limit": 2})
    assert rows.structured["items"] == [{"id": 1, "name": "Tea"}, {"id": 2, "name": "Cup"}]
    wrong = client.call_tool("list_items", {"fields": ["nam"]})
    assert wrong.text == "fields: rows have no 'nam'; did you mean 'name'?"


@pytest.mark.django_db(transaction=True)
def test_one_tool_has_all_operations_of_a_tag(server: Server, users: dict[str, User]) -> None:
    openapi_tools(ninja_api.api, one_tool_per_view=True, include=["get_*", "slow"], server=server)
    with SyncClient(server, user=users["staff"]) as client:
        names = {tool["name"] for tool in client.list_tools()}
        item = client.call_tool("items", {"action": "get_item", "item_id": 1})
    assert names == {"items", "archive"}
    assert item.structured["name"] == "Tea"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("list_item", "'list_item' is none of the operations: did you mean 'list_items'?"),
        ("hidden*", "'hidden*' is none of the operations: there are add_box, add_"),
    ],
)
def test_unknown_name_is_reported(server: Server, pattern: str, message: str) -> None:
    openapi_tools(ninja_api.api, include=["get_item", pattern], server=server)
    with SyncClient(server) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["get_item"]
    (reason,) = availability.missing(server).values()
    assert message in reason


@pytest.mark.django_db(transaction=True)
def test_caller_by_other_credentials_has_the_headers_of_the_site(
    server: Server, users: dict[str, User]
) -> None:
    def headers(frame: Any) -> dict[str, str]:
        return {"X-Api-Key": "one"}

    openapi_tools(ninja_api.api, include=["devices"], credentials=headers, server=server)
    _, sent = headers_of({"Authorization": "Bearer token-agent"})
    with SyncClient(server, transport="http", headers=sent) as client:
        assert client.call_tool("devices").structured == {"auth": "device one"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("user_get_item_9774f18e", "user_get_item"),
        ("read_9774f18e", "read_9774f18e"),
        (None, ""),
    ],
)
def test_random_end_of_an_id_is_no_part_of_a_name(given: str | None, name: str) -> None:
    operation = SimpleNamespace(operation_id=given, view_func=ninja_api.get_item)
    assert ninja.own_id(operation) == name
