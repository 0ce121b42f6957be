"""Long lists, and long pages of lists: cut at a row, with a cursor for the following ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import path
from rest_framework import serializers, viewsets
from rest_framework.pagination import LimitOffsetPagination, PageNumberPagination

from django_mcp import Server
from django_mcp.rest import rest_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Customer
from tests.rest import urls
from tests.rest.conftest import Users

CURSOR = re.compile('cursor="([^"]+)"')


class CustomerSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Customer
        fields = ("id", "name")


class Customers(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Customer.objects.order_by("id")
    serializer_class = CustomerSerializer
    pagination_class: Any = None

    def filter_queryset(self, queryset: Any) -> Any:
        city = self.request.query_params.get("city")
        return queryset if city is None else queryset.filter(city=city)


class Unlimited(Customers):
    pagination_class = LimitOffsetPagination


class Pages(PageNumberPagination):  # type: ignore[misc]
    page_size = 30


class Paged(Customers):
    pagination_class = Pages


class ByName(serializers.ListSerializer):  # type: ignore[misc]
    """Writes the names of customers, and no objects."""

    def to_representation(self, data: Any) -> Any:
        return [customer.name for customer in data]


class ByNameSerializer(CustomerSerializer):
    class Meta(CustomerSerializer.Meta):
        list_serializer_class = ByName


class Wrapped(CustomerSerializer):
    @classmethod
    def many_init(cls, *args: Any, **kwargs: Any) -> Any:
        return ByName(*args, child=cls(), **kwargs)


@pytest.fixture
def server(server: Server, monkeypatch: pytest.MonkeyPatch, users: Users) -> Server:
    routes = {"customers/": Customers, "unlimited/": Unlimited, "paged/": Paged}
    added = [path(where, view.as_view({"get": "list"})) for where, view in routes.items()]
    monkeypatch.setattr(urls, "urlpatterns", added)
    rows = [
        Customer(name=f"{number} {'x' * 80}", city="Rome", email=f"{number}@a.example")
        for number in range(50)
    ]
    Customer.objects.bulk_create(rows)
    options = {"list": {"query": {"city": {"type": "string"}}}}
    bound: Any = {"max_result_chars": 2_000, "options": options, "server": server}
    rest_tools(Customers, ["list"], **bound)
    rest_tools(Unlimited, ["list"], **bound)
    rest_tools(Paged, ["list"], **bound)
    return server


def rows_of(result: Any) -> list[Any]:
    structured = result["structuredContent"]
    rows: list[Any] = structured["result"] if isinstance(structured, dict) else structured
    return rows


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("name", ["customers_list", "unlimited_list"])
def test_parts_of_a_list_have_all_rows_once(server: Server, version: str, name: str) -> None:
    seen: list[str] = []
    arguments: dict[str, Any] = {"city": "Rome"}
    with SyncClient(server, version=version) as client:
        for _ in range(50):
            result = client.call_tool(name, arguments)
            rows = rows_of(result)
            seen += [row["name"] for row in rows]
            sentence = result["content"][-1]["text"]
            if "last rows" in sentence:
                break
            assert 0 < len(rows) < 25
            assert f"to {len(seen)} of 50. For the following ones" in sentence
            arguments["cursor"] = CURSOR.search(sentence)[1]  # type: ignore[index]
    assert seen == [customer.name for customer in Customer.objects.order_by("id")]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_parts_of_a_page_have_its_rows_once_and_its_other_members(
    server: Server, version: str
) -> None:
    seen: list[str] = []
    arguments: dict[str, Any] = {"city": "Rome", "page": 1}
    with SyncClient(server, version=version) as client:
        for _ in range(30):
            result = client.call_tool("paged_list", arguments)
            page = result.structured
            assert page["count"] == 50
            assert "page=2" in page["next"]
            seen += [row["name"] for row in page["results"]]
            sentence = result["content"][-1]["text"]
            if "last rows" in sentence:
                break
            assert f"to {len(seen)} of 30 of this page. For the following ones" in sentence
            arguments["cursor"] = CURSOR.search(sentence)[1]  # type: ignore[index]
    assert "of this page, " in sentence
    assert seen == [customer.name for customer in Customer.objects.order_by("id")[:30]]


def test_cursor_of_another_request_is_an_error(server: Server) -> None:
    with SyncClient(server) as client:
        sentence = client.call_tool("customers_list", {"city": "Rome"})["content"][-1]["text"]
        cursor = CURSOR.search(sentence)[1]  # type: ignore[index]
        for arguments in ({"cursor": cursor}, {"cursor": "0", "city": "Rome"}):
            result = client.call_tool("customers_list", arguments)
            assert result.is_error
            assert "does not belong to this request" in result.text


def test_list_that_has_room_is_returned_as_a_whole(server: Server) -> None:
    Customer.objects.filter(pk__gt=Customer.objects.order_by("id")[2].pk).delete()
    with SyncClient(server) as client:
        result = client.call_tool("customers_list")
    assert len(rows_of(result)) == 3
    assert len(result["content"]) == 1


@pytest.mark.parametrize("kind", [ByNameSerializer, Wrapped])
@pytest.mark.parametrize("pagination", [None, Pages])
def test_list_of_a_serializer_with_other_rows_has_no_schema(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: Any, pagination: Any
) -> None:
    members = {"serializer_class": kind, "pagination_class": pagination}
    view_class: Any = type("Names", (Customers,), members)
    urls.urlpatterns.append(path("names/", view_class.as_view({"get": "list"})))
    rest_tools(view_class, ["list"], server=server)

    customer = Customer.objects.order_by("id")[0]
    with SyncClient(server) as client:
        result = client.call_tool("names_list").assert_ok()
        tools = {tool["name"]: tool for tool in client.list_tools()}
    structured = result.structured
    listed = structured["results"] if pagination else structured
    rows = listed["result"] if isinstance(listed, dict) else listed
    assert rows[0] == customer.name
    assert "fields" not in tools["names_list"]["inputSchema"]["properties"]


def test_list_that_has_become_shorter_has_no_more_rows(server: Server) -> None:
    with SyncClient(server) as client:
        sentence = client.call_tool("customers_list")["content"][-1]["text"]
        Customer.objects.filter(pk__gt=Customer.objects.order_by("id")[2].pk).delete()
        cursor = CURSOR.search(sentence)[1]  # type: ignore[index]
        result = client.call_tool("customers_list", {"cursor": cursor})
    assert rows_of(result) == []
    assert result["content"][-1]["text"] == "There are no more rows: the list has become shorter."


def test_characters_of_a_row_are_counted_as_they_are_sent(server: Server) -> None:
    """And not as escapes of six characters each."""
    for customer in Customer.objects.all():
        customer.name = f"{customer.pk}" + "\u00fc" * 76
        customer.save()
    with SyncClient(server) as client:
        rows = rows_of(client.call_tool("customers_list"))
    assert len(rows) > 15
