"""The schemas of tools: types, formats, choices, titles, descriptions and languages."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import translation
from jsonschema import Draft202012Validator

from django_mcp.testing import Client
from tests.toolsets.conftest import Caller, Desk
from tests.toolsets.toolsets import customers, tickets

READS: list[tuple[str, dict[str, Any]]] = [
    ("list_tickets", {}),
    ("get_ticket", {"number": 8}),
    ("count_tickets", {}),
    (
        "aggregate_tickets",
        {
            "group_by": ["status", "created__month", "customer__name"],
            "aggregates": ["price__sum", "price__avg", "price__max", "number__sum", "number__avg"],
        },
    ),
    ("update_ticket", {"number": 1, "price": 2.5}),
    ("delete_ticket", {"number": 1}),
    ("list_customers", {}),
]


def listed(call: Any) -> dict[str, Any]:
    async def run() -> Any:
        async with Client(call.server, user=Caller()) as client:
            return {tool["name"]: tool for tool in await client.list_tools()}

    found: dict[str, Any] = async_to_sync(run)()
    return found


@pytest.fixture
def call(desk: Desk) -> Any:
    return desk.serve(tickets(desk.models), customers(desk.models))


def test_answers_match_the_output_schemas(call: Any) -> None:
    tools = listed(call)
    for name, arguments in READS:
        schema = tools[name]["outputSchema"]
        Draft202012Validator.check_schema(schema)
        answer = call(name, **arguments)
        assert not [*Draft202012Validator(schema).iter_errors(answer)]
        assert not Draft202012Validator(schema).is_valid({**answer, "unlisted": 1})
        Draft202012Validator(tools[name]["inputSchema"]).validate(arguments)


def test_arguments_have_types_formats_choices_and_titles(call: Any) -> None:
    properties = listed(call)["list_tickets"]["inputSchema"]["properties"]
    assert properties["status"] == {
        "title": "Status",
        "description": "open: Yes; closed: No",
        "type": "string",
        "enum": ["open", "closed"],
    }
    assert properties["subject__icontains"] == {
        "title": "Name: contains, in any case",
        "description": "In short",
        "type": "string",
        "maxLength": 200,
    }
    assert properties["created__gte"]["format"] == "date-time"
    assert properties["number__in"]["items"]["type"] == "integer"
    assert properties["ordering"]["items"]["enum"][:2] == ["number", "-number"]
    assert properties["limit"]["maximum"] == 100
    assert "code" not in str(properties)


def test_titles_are_in_the_language_of_the_list(call: Any) -> None:
    english = listed(call)["list_tickets"]
    with translation.override("de"):
        german = listed(call)["list_tickets"]
    assert [choices(english), choices(german)] == [
        "open: Yes; closed: No",
        "open: Ja; closed: Nein",
    ]
    assert german["outputSchema"]["properties"]["items"]["items"]["properties"]["subject"][
        "title"
    ] == ("Name")
    assert listed(call)["list_tickets"] == english


def choices(tool: dict[str, Any]) -> str:
    described: str = tool["inputSchema"]["properties"]["status"]["description"]
    return described


def test_forms_describe_their_fields(call: Any) -> None:
    schema = listed(call)["create_ticket"]["inputSchema"]
    assert sorted(schema["required"]) == ["created", "customer", "number", "subject", "team"]
    properties = schema["properties"]
    assert properties["subject"]["maxLength"] == 100
    kinds = [each["type"] for each in properties["price"]["anyOf"]]
    assert kinds == ["number", "string", "null"]
    assert properties["customer"]["type"] == "integer"
    update = listed(call)["update_ticket"]["inputSchema"]
    assert update["required"] == ["number"]


def test_own_editable_fields_are_written_unless_others_are_named(desk: Desk) -> None:
    fields = ["pk", "number", "subject", "customer__name", "customer"]
    declared = tickets(
        desk.models,
        fields=fields,
        operations=["update"],
        write_fields=None,
        filter_fields={},
        search_fields=[],
        ordering_fields=[],
        group_fields=[],
        aggregate_fields={},
    )
    schema = listed(desk.serve(declared))["update_ticket"]["inputSchema"]
    assert [*schema["properties"]] == ["pk", "number", "subject", "customer"]


def test_integers_have_the_bounds_of_their_column(desk: Desk) -> None:
    declared = tickets(desk.models, operations=["list"])
    schema = listed(desk.serve(declared))["list_tickets"]["inputSchema"]
    bits = {"sqlite": 64, "postgresql": 32, "mysql": 32}[desk.connection.vendor]
    number = schema["properties"]["number"]
    assert number["minimum"] == -(2 ** (bits - 1))
    assert number["maximum"] == 2 ** (bits - 1) - 1
