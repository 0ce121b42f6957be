"""Values of Django's types in results: the queries of async handlers, and the URLs of files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.paginator import Paginator

from django_mcp import Server
from django_mcp.runtime.django_types.values import MAX_DEPTH
from django_mcp.testing import Client

pytestmark = pytest.mark.django_db(transaction=True)


def nested(value: Any, levels: int) -> Any:
    for number in range(levels):
        value = {"a": value} if number % 2 else [value]
    return value


@pytest.mark.parametrize("levels", [1, 4, MAX_DEPTH])
async def test_queries_deep_in_the_result_of_an_async_handler_are_run(levels: int) -> None:
    await Group.objects.acreate(name="staff")
    server = Server("groups")

    @server.tool
    async def names() -> Any:
        return nested(Group.objects.values("name"), levels)

    async with Client(server) as client:
        result = await client.call_tool("names")
    expected = nested([{"name": "staff"}], levels)
    assert json.loads(result.text) == expected


async def test_page_of_an_async_handler_has_its_rows() -> None:
    await Group.objects.acreate(name="staff")
    server = Server("groups")

    @server.tool
    async def names() -> Any:
        rows = Group.objects.order_by("name").values("name")
        return await sync_to_async(Paginator(rows, 10).get_page)(1)

    async with Client(server) as client:
        result = await client.call_tool("names")
    assert json.loads(result.text)["results"] == [{"name": "staff"}]
