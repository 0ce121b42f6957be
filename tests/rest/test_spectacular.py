"""Schemas of tools where drf-spectacular describes the view."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.validators import MaxValueValidator, MinValueValidator
from django.test import override_settings
from django.urls import path
from django_filters import rest_framework as filters
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.parsers import JSONParser
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import Server, checks, registry
from django_mcp.openapi import availability
from django_mcp.rest import rest_tool, rest_tools, spectacular
from example_site.helpdesk.models import Ticket
from tests.rest import api, urls
from tests.rest.conftest import Call, Users

ALL = ["list", "retrieve", "create", "update", "partial_update", "destroy", "close", "counts"]


# ``extend_schema`` reads the setting where it is applied.
with override_settings(
    REST_FRAMEWORK={"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
):

    class DescribedTickets(api.TicketViewSet):
        """Tickets whose API is described by drf-spectacular."""

        schema = AutoSchema()

        @extend_schema(
            summary="Search tickets",
            description="Find tickets by their text.",
            parameters=[
                OpenApiParameter("tag", str, many=True, explode=True, description="A tag"),
                OpenApiParameter("version", str, OpenApiParameter.HEADER),
            ],
        )
        def list(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            return super().list(request, *args, **kwargs)


class DescribedUploads(api.Uploads):
    schema = AutoSchema()


class Cyclic(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "pet": Pet()}


class Pet(serializers.Serializer):  # type: ignore[misc]
    kind = serializers.ChoiceField(["cat", "dog"], allow_null=True)
    age = serializers.IntegerField(min_value=0, default=1)


class Owner(serializers.Serializer):  # type: ignore[misc]
    number = serializers.IntegerField()
    id = serializers.IntegerField(read_only=True)
    pets = Pet(many=True)


class WithBodies(AutoSchema):
    def _get_request_body(self, direction: Any = "request") -> Any:
        if self.method != "DELETE":
            return super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        ids = {"type": "array", "items": {"type": "integer"}}
        return {"content": {"application/json": {"schema": ids}}}


class DeletesSeveral(APIView):  # type: ignore[misc]
    schema = WithBodies()

    def delete(self, request: Any) -> Any:
        return Response({"deleted": request.data})


class Owners(api.Uploads):
    schema = AutoSchema()
    serializer_class = Owner


@pytest.fixture(autouse=True)
def _described(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    from django.urls import path
    from rest_framework.routers import SimpleRouter

    from tests.rest import urls

    router = SimpleRouter()
    router.register("described", DescribedTickets)
    more = [
        path("uploads2/", DescribedUploads.as_view()),
        path("several/", DeletesSeveral.as_view()),
        path("owners/<int:number>/", Owners.as_view(parser_classes=(JSONParser,))),
    ]
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, *router.urls, *more])
    settings.ROOT_URLCONF = "tests.rest.urls"


class Place(serializers.Serializer):  # type: ignore[misc]
    longitude = serializers.DecimalField(
        max_digits=9,
        decimal_places=6,
        coerce_to_string=False,
        validators=[MinValueValidator(Decimal("-180.0")), MaxValueValidator(Decimal("180.0"))],
    )
    share = serializers.DecimalField(
        max_digits=3, decimal_places=2, coerce_to_string=False, max_value=Decimal("0.5")
    )


class Places(api.Uploads):
    schema = AutoSchema()
    serializer_class = Place


def test_data_of_delete_is_sent_where_it_is_described(server: Server, call: Call) -> None:
    rest_tool(DeletesSeveral, "delete", server=server)
    assert call("deletes_several_delete", data=[3, 5]).structured == {"deleted": [3, 5]}
    assert "data" in call("deletes_several_delete").text


def test_view_makes_the_context_of_its_serializers_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def get_serializer_context(view: Any) -> Any:
        asked.append(view)
        return api.TicketViewSet.get_serializer_context(view)

    monkeypatch.setattr(DescribedTickets, "get_serializer_context", get_serializer_context)
    rest_tools(DescribedTickets, ALL, server=server)
    assert len(list(server.components.all())) == len(ALL)
    assert len({*map(id, asked)}) == len(asked)
    assert len(asked) >= len(ALL)


def test_decimal_bounds_are_numbers(server: Server, settings: Any, monkeypatch: Any) -> None:
    from django.urls import path

    from tests.rest import urls

    settings.REST_FRAMEWORK = {"COERCE_DECIMAL_TO_STRING": False}
    added = path("places/", Places.as_view(parser_classes=(JSONParser,)))
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, added])
    rest_tool(Places, "post", server=server)
    rest_tool(api.ping, server=server, name="ping")

    longitude = tool(server, "places_post").input_schema["properties"]["longitude"]
    share = tool(server, "places_post").input_schema["properties"]["share"]
    assert (longitude["minimum"], longitude["maximum"]) == (-180, 180)
    assert share["maximum"] == 0.5
    assert tool(server, "ping") is not None


def tool(server: Server, name: str) -> Any:
    found: Any = server.components.find("tool", name)
    return found


def test_both_sources_name_the_same_arguments(server: Server) -> None:
    rest_tools(api.TicketViewSet, ALL, server=server)
    rest_tools(DescribedTickets, ALL, server=server, options={"list": {"query": {}}})

    for action in ALL[1:-2]:
        own = tool(server, f"ticket_{action}").input_schema
        described = tool(server, f"described_tickets_{action}").input_schema
        assert sorted(described["properties"]) == sorted(own["properties"])
        assert sorted(described["required"]) == sorted(own["required"])
        assert described["additionalProperties"] is False


def test_title_description_and_parameters_are_those_of_the_author(server: Server) -> None:
    rest_tools(DescribedTickets, server=server)

    found = tool(server, "described_tickets_list")
    properties = found.input_schema["properties"]
    assert found.title == "Search tickets"
    assert found.description == "Search tickets.\n\nFind tickets by their text."
    assert properties["tag"]["description"] == "A tag"
    assert "version" not in properties
    assert {"search", "ordering", "page", "status__in"} <= properties.keys()


class Counting:
    """Add the count of documents to the query set."""


class DescribedCustomers(Counting, api.CustomerViewSet):
    schema = AutoSchema()


def test_docstring_of_a_mixin_describes_no_tool(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rest_framework.routers import SimpleRouter

    from tests.rest import urls

    router = SimpleRouter()
    router.register("people", DescribedCustomers)
    monkeypatch.setattr(urls, "urlpatterns", router.urls)
    rest_tools(DescribedCustomers, server=server)

    described = tool(server, "described_customers_list")
    assert described.description == "List the customers."


def test_partial_update_has_no_defaults_and_requires_nothing(server: Server) -> None:
    rest_tools(DescribedTickets, ["partial_update"], server=server)

    schema = tool(server, "described_tickets_partial_update").input_schema
    assert schema["required"] == ["id"]
    assert '"default"' not in json.dumps(schema)


def test_described_tools_answer_as_the_others(
    tickets: Any, users: Users, server: Server, call: Call
) -> None:
    rest_tools(api.TicketViewSet, ["list", "create", "partial_update"], server=server)
    actions = ["list", "create", "partial_update"]
    rest_tools(DescribedTickets, actions, answer="full", server=server)
    user = users.staff

    for arguments in ({}, {"status__in": ["open", "waiting"]}, {"search": "printer"}):
        own = call("ticket_list", user=user, **arguments)["structuredContent"]
        described = call("described_tickets_list", user=user, **arguments)["structuredContent"]
        assert described["results"] == own["results"]
    data = {"customer": tickets[0].customer_id, "subject": "A", "description": "B"}
    made = call("described_tickets_create", user=user, **data)["structuredContent"]
    changed = call("described_tickets_partial_update", user=user, id=made["id"], subject="C")
    assert changed["structuredContent"] == {**made, "subject": "C"}


def test_files_are_objects_that_hosts_send(server: Server) -> None:
    rest_tool(DescribedUploads, "post", server=server)

    schema = tool(server, "described_uploads_post").input_schema
    assert schema["properties"]["file"]["required"] == ["download_url", "file_id"]


def test_body_with_a_name_of_the_path_is_one_argument(server: Server) -> None:
    rest_tool(Owners, "post", server=server)

    schema = tool(server, "owners_post").input_schema
    assert sorted(schema["properties"]) == ["data", "number"]
    assert schema["required"] == ["number", "data"]
    body = schema["properties"]["data"]
    assert "id" not in body["properties"]
    assert "Pet" in schema["$defs"]


def test_warnings_of_the_generator_are_not_printed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rest_tools(DescribedTickets, ALL, server=server)
    assert tool(server, "described_tickets_counts")

    assert capsys.readouterr().err == ""


def test_view_with_another_schema_class_is_not_described(server: Server) -> None:
    rest_tools(api.TicketViewSet, server=server)

    operation = tool(server, "ticket_list").handler.__self__._operation
    assert spectacular.Descriptions([operation]).of(operation) is None


def test_all_views_are_described_by_one_generation(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations = []
    original = SchemaGenerator.get_schema

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        generations.append(self)
        return original(self, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
    rest_tools(DescribedTickets, ALL, server=server)
    rest_tool(DescribedUploads, "post", server=server)
    rest_tool(Owners, "post", server=server)

    assert tool(server, "owners_post")
    assert len(generations) == 1


def test_checks_name_views_without_generating_a_schema(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_schema(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("A schema is generated")

    rest_tools(DescribedTickets, ALL, server=server)
    rest_tools(api.Things, server=server)
    with monkeypatch.context() as patch:
        patch.setattr(registry.registered, "servers", {"api": server})
        patch.setattr(SchemaGenerator, "get_schema", get_schema)
        messages = [each.msg for each in run_checks(tags=[checks.TAG])]

    assert [each for each in messages if "Things.list has no URL" in each]
    assert server.components.has_deferred


def test_view_that_cannot_be_described_takes_no_other_along(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_operation(*args: Any) -> Any:
        raise LookupError("no such table")

    monkeypatch.setattr(DescribedUploads.schema, "get_operation", get_operation)
    rest_tools(DescribedTickets, ALL, server=server)
    rest_tool(DescribedUploads, "post", server=server)
    rest_tool(Owners, "post", server=server)

    assert tool(server, "owners_post")
    assert tool(server, "described_tickets_list").title == "Search tickets"
    (reason,) = availability.missing(server).values()
    assert "DescribedUploads.post: LookupError: no such table" in reason


def test_other_version_of_drf_spectacular_loses_descriptions_and_no_tool(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(AutoSchema, "map_parsers")
    rest_tools(DescribedTickets, server=server)

    assert tool(server, "described_tickets_list").input_schema["properties"]
    assert "this version of it has no map_parsers" in caplog.text


def test_view_at_two_urls_is_described_for_each(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.urls import include, path

    from tests.rest import urls

    view = Owners.as_view(parser_classes=(JSONParser,))
    inner = [path("<int:number>/", view)]
    added = [path("one/", include(inner)), path("two/<slug:shelf>/", include(inner))]
    monkeypatch.setattr(urls, "urlpatterns", added)
    rest_tool(Owners, "post", server=server, prefix="one/", name="one")
    rest_tool(Owners, "post", server=server, prefix="two/", name="two")

    assert set(tool(server, "one").input_schema["properties"]) == {"number", "data"}
    assert set(tool(server, "two").input_schema["properties"]) == {"number", "shelf", "data"}


def test_declaration_after_the_first_list_is_built_too(server: Server) -> None:
    rest_tools(DescribedTickets, server=server)
    assert tool(server, "described_tickets_list")

    rest_tool(Owners, "post", server=server)

    assert tool(server, "owners_post")


def test_body_that_is_an_object_or_a_list_is_the_object(
    server: Server, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.urls import path

    from tests.rest import urls

    # ``extend_schema`` reads it where it is applied.
    settings.REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
    one = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    of_several = {"type": "array", "items": one}

    class Several(Owners):
        @extend_schema(request={"application/json": {"oneOf": [one, of_several]}})
        def post(self, request: Any) -> Any:
            return super().post(request)

    added = path("several/", Several.as_view(parser_classes=(JSONParser,)))
    monkeypatch.setattr(urls, "urlpatterns", [added])
    rest_tool(Several, "post", server=server, name="add")

    assert tool(server, "add").input_schema["properties"] == one["properties"]


def test_filter_of_several_values_takes_a_list(
    server: Server, call: Call, users: Users, tickets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ids(filters.FilterSet):  # type: ignore[misc]
        id__in = filters.CharFilter(method="several", help_text="Keys")

        def several(self, queryset: Any, name: str, value: str) -> Any:
            return queryset.filter(**{name: value.split(",")})

    monkeypatch.setattr(DescribedTickets, "filterset_class", Ids)
    rest_tools(DescribedTickets, server=server)

    schema = tool(server, "described_tickets_list").input_schema["properties"]["id__in"]
    assert schema == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "Keys",
    }
    keys = [str(tickets[0].pk), str(tickets[1].pk)]
    result = call("described_tickets_list", user=users.staff, id__in=keys)
    assert len(result["structuredContent"]["results"]) == 2


def lookups() -> dict[str, Any]:
    """Filters such as some sites generate: a dozen for each field."""
    suffixes = ("ic", "nic", "isw", "nisw", "iew", "niew", "ie", "nie", "empty")
    return {
        f"{field}__{suffix}": filters.CharFilter(method="contains")
        for field in ("subject", "description", "status")
        for suffix in suffixes
    }


class ManyFilters(filters.FilterSet):  # type: ignore[misc]
    vars().update(lookups())
    numbers = filters.BaseInFilter(field_name="id", lookup_expr="in")
    status = filters.CharFilter(method="contains")

    class Meta:
        model = Ticket
        fields = ()

    def contains(self, queryset: Any, name: str, value: str) -> Any:
        return queryset.filter(**{f"{name.partition('__')[0]}__icontains": value})


@pytest.mark.parametrize("viewset", [DescribedTickets, api.TicketViewSet])
def test_filters_that_are_too_many_are_one_argument(
    tickets: Any, users: Users, server: Server, call: Call, viewset: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(viewset, "filterset_class", ManyFilters)
    rest_tools(viewset, ["list"], server=server, options={"list": {"name": "find"}})

    properties = tool(server, "find").input_schema["properties"]
    assert not [name for name in properties if "__" in name]
    assert {"status", "numbers", "search", "filters"} <= properties.keys()
    assert (
        "\ndescription, status, subject: empty, ic, ie, iew, isw, nic, nie, niew, nisw"
        in (properties["filters"]["description"])
    )
    result = call("find", user=users.staff, filters={"subject__ic": "print", "status__ie": "open"})
    assert [row["subject"] for row in result["structuredContent"]["results"]] == ["Printer"]
    wrong = call("find", user=users.staff, filters={"subject__icc": "print", "status__ic": [1]})
    assert wrong.text.splitlines()[:2] == [
        "A filter is invalid.",
        "subject__icc: there is no such filter; did you mean 'subject__ic'?",
    ]
    assert "status__ic" in wrong.text.splitlines()[2]


@extend_schema_field({"type": "string", "example": "#ff0000"})
class Colour(serializers.CharField):  # type: ignore[misc]
    pass


def test_examples_of_the_author_reach_the_arguments(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Label(serializers.Serializer):  # type: ignore[misc]
        text = serializers.CharField(help_text="What it says")
        colour = Colour()
        tags = serializers.ListField(child=serializers.CharField(), required=False)

    examples = [
        OpenApiExample("red", {"text": "Fragile", "colour": "#f00", "id": 1}),
        OpenApiExample("none", {"text": "Heavy"}, request_only=True),
        OpenApiExample("result", {"text": "Saved"}, response_only=True),
    ]
    days = OpenApiParameter("days", int, examples=[OpenApiExample("week", 7)])
    with override_settings(
        REST_FRAMEWORK={"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
    ):

        class Labels(APIView):  # type: ignore[misc]
            schema = AutoSchema()

            @extend_schema(request=Label, examples=examples, parameters=[days])
            def post(self, request: Any) -> None:
                """Print a label."""

    monkeypatch.setattr(urls, "urlpatterns", [path("labels/", Labels.as_view())])
    rest_tool(Labels, "post", server=server)

    properties = tool(server, "labels_post").input_schema["properties"]
    assert properties["text"]["examples"] == ["Fragile", "Heavy"]
    assert properties["text"]["description"] == "What it says"
    assert properties["colour"]["examples"] == ["#f00"]
    assert "examples" not in properties["tags"]
    assert properties["days"]["examples"] == [7]
