"""Serializers that contain themselves, choices and defaults: what their tools accept."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import models
from django.urls import path
from rest_framework import serializers, viewsets
from rest_framework.response import Response
from rest_framework.validators import UniqueTogetherValidator

from django_mcp import Server
from django_mcp.core.protocol.schema.shapes import or_null
from django_mcp.openapi import availability
from django_mcp.rest import rest_tools
from django_mcp.rest.serializers import input_schema, member_schema
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Customer
from tests.rest import urls

pytestmark = pytest.mark.django_db


class Tree(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField()

    def get_fields(self) -> Any:
        return {**super().get_fields(), "children": Tree(many=True, required=False)}

    def create(self, data: Any) -> Any:
        return data


class Trees(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Customer.objects.all()
    serializer_class = Tree

    def get_serializer_context(self) -> Any:
        """Needs what a middleware sets, as contexts of many sites do."""
        return {**super().get_serializer_context(), "tenant": self.request.tenant}

    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        data = Tree(data=request.data)
        data.is_valid(raise_exception=True)
        return Response(data.validated_data)


@pytest.fixture
def trees(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    actions = {"get": "list", "post": "create", "patch": "partial_update"}
    monkeypatch.setattr(urls, "urlpatterns", [path("trees/", Trees.as_view(actions))])
    rest_tools(Trees, [*actions.values()], server=server)
    return server


def test_serializer_in_itself_is_a_reference(trees: Server) -> None:
    tools: Any = {tool.name: tool for tool in trees.components.of_kind("tool")}
    assert tools.keys() == {"trees_list", "trees_create", "trees_partial_update"}
    assert availability.missing(trees) == {}
    schema = tools["trees_create"].input_schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["required"] == ["name"]
    assert "required" not in tools["trees_partial_update"].input_schema["$defs"]["Tree"]

    leaf = {"name": "leaf", "children": []}
    with SyncClient(trees) as client:
        sent = {"name": "root", "children": [{"name": "branch", "children": [leaf]}]}
        assert client.call_tool("trees_create", sent).structured == sent
        wrong = {"name": "root", "children": [{"name": "branch", "children": [{}]}]}
        assert client.call_tool("trees_create", wrong).is_error


class Size(models.IntegerChoices):
    SMALL = 1, "Small"
    LARGE = 2, "Large"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (serializers.ChoiceField(choices=[]), {}),
        (
            serializers.ChoiceField(choices=[(None, "-"), ("a", "A")], allow_null=True),
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            serializers.ChoiceField(choices=["", "a"], allow_null=True, allow_blank=True),
            {"anyOf": [{"type": "string", "enum": ["a", ""]}, {"type": "null"}]},
        ),
        (
            serializers.ChoiceField(choices=Size.choices),
            {"type": "integer", "enum": [1, 2], "description": "1: Small; 2: Large"},
        ),
        (serializers.FloatField(default=float("inf"), max_value=float("inf")), {"type": "number"}),
        (
            serializers.ListField(child=serializers.IntegerField(), allow_null=True),
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
    ],
)
def test_field_accepts_what_its_values_are(field: Any, expected: Any) -> None:
    field.bind("it", serializers.Serializer())
    assert {key: it for key, it in member_schema(field).items() if key != "title"} == expected


def test_null_is_added_once() -> None:
    schema = {"type": "string", "enum": ["a", None]}
    assert or_null(schema) == {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}


def test_fields_that_are_unique_together_are_required() -> None:
    class Booking(serializers.ModelSerializer):  # type: ignore[misc]
        class Meta:
            model = Customer
            fields = ("name", "city", "email")
            extra_kwargs = {each: {"required": False} for each in fields}
            validators = [UniqueTogetherValidator(Customer.objects.all(), fields=("name", "city"))]

    assert input_schema(Booking())["required"] == ["name", "city"]


class Filter(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField(required=False)
    city = serializers.CharField(required=False)


class Searches(viewsets.ViewSet):  # type: ignore[misc]
    def create(self, request: Any, name: str) -> Response:
        return Response({"name": name, "sent": request.data})


def test_optional_body_beside_an_argument_of_its_name_stays_optional(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Searches.as_view({"post": "create"})
    monkeypatch.setattr(urls, "urlpatterns", [path("searches/<str:name>/", view)])
    rest_tools(Searches, ["create"], options={"create": {"serializer": Filter}}, server=server)

    tool: Any = server.components.find("tool", "searches_create")
    assert tool.input_schema["required"] == ["name"]
    with SyncClient(server) as client:
        for data in ({}, {"city": "Rome"}):
            arguments = {"name": "a"} | ({"data": data} if data else {})
            sent = client.call_tool("searches_create", arguments).structured
            assert sent == {"name": "a", "sent": data}


class Looks(viewsets.ViewSet):  # type: ignore[misc]
    def list(self, request: Any) -> Response:
        return Response({"sent": request.query_params})

    def create(self, request: Any) -> Response:
        return Response({"sent": request.data})


@pytest.mark.parametrize("is_one_tool", [False, True])
def test_null_for_an_optional_argument_is_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch, is_one_tool: bool
) -> None:
    view = Looks.as_view({"get": "list", "post": "create"})
    monkeypatch.setattr(urls, "urlpatterns", [path("looks/", view)])
    text = {"type": "string"}
    rest_tools(
        Looks,
        ["list", "create"],
        options={"create": {"serializer": Filter}, "list": {"query": {"q": text, "city": text}}},
        one_tool_per_view=is_one_tool,
        server=server,
    )

    with SyncClient(server) as client:
        for action, given in (("list", {"q": "a"}), ("create", {"name": "a"})):
            arguments = {**given, "city": None} | ({"action": action} if is_one_tool else {})
            tool = "looks" if is_one_tool else f"looks_{action}"
            assert client.call_tool(tool, arguments).structured == {"sent": given}
