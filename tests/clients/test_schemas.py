"""Schemas and structured content, validated as clients do: with ajv and its formats, and in Python.

A client that finds one value which its schema forbids rejects the whole answer.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, BaseModel
from typing_extensions import TypedDict

from django_mcp import Server, registry
from django_mcp.forms import form_tool
from django_mcp.rest import rest_tools
from django_mcp.testing import SyncClient
from django_mcp.toolsets import ModelToolset
from tests.clients import environments
from tests.clients.conftest import SDKS
from tests.forms.every_field import EveryField
from tests.installed_apps import installed
from tests.toolsets.toolsets import customers, tickets


class Case(NamedTuple):
    """A schema, and a value that must meet it."""

    name: str
    schema: Any
    value: Any = None


@pytest.fixture(scope="session")
def ajv() -> Callable[[Sequence[Case]], dict[str, str]]:
    """Return what ajv finds wrong, by the names of the cases."""
    modules = environments.ts_modules()
    command = [str(environments.node()), str(SDKS / "validate.cjs")]

    def validate(cases: Sequence[Case]) -> dict[str, str]:
        given = [
            {"name": case.name, "schema": case.schema}
            | ({} if case.value is None else {"value": case.value})
            for case in cases
        ]
        result = subprocess.run(
            command,
            input=json.dumps(given).encode(),
            env={**os.environ, "NODE_PATH": str(modules)},
            stdout=subprocess.PIPE,
            check=True,
        )
        problems: dict[str, str] = json.loads(result.stdout)
        return problems

    return validate


def in_python(cases: Sequence[Case]) -> dict[str, str]:
    """What the validator of Python, which the official SDK uses, finds wrong."""
    problems = {}
    for case in cases:
        Draft202012Validator.check_schema(case.schema)
        errors = (
            [] if case.value is None else Draft202012Validator(case.schema).iter_errors(case.value)
        )
        if messages := [f"{error.json_path}: {error.message}" for error in errors]:
            problems[case.name] = "; ".join(messages)
    return problems


def schemas_of(server: Server) -> Iterator[Case]:
    for component in server.components.all():
        if component.kind == "tool":
            described = json.loads(json.dumps(component.descriptor(), default=str))
            name = f"{server.name}: {described['name']}"
            yield Case(f"{name}, input", described["inputSchema"])
            if "outputSchema" in described:
                yield Case(f"{name}, output", described["outputSchema"])


@pytest.mark.django_db
def test_schemas_of_every_tool_of_the_test_sites_compile(ajv: Any, settings: Any) -> None:
    from tests.rest.urls import router

    # A server builds its tools once: those of the site with its own URLs.
    of_site = [case for server in registry.servers() for case in schemas_of(server)]
    settings.ROOT_URLCONF = "tests.rest.urls"
    own = Server("of_tests")
    with installed("tests.toolsets.desk"):
        from tests.toolsets.desk import models as desk

        tickets(desk).__mcp_register__(own)
        customers(desk).__mcp_register__(own)
        form_tool(EveryField, on_valid=lambda form, _: None, server=own)
        of_api = Server("of_api")
        rest_tools(router, read_only=False, server=of_api)
        cases = [*of_site, *schemas_of(own), *schemas_of(of_api)]
    assert len(cases) > 100
    assert ajv(cases) == {}
    assert in_python(cases) == {}


class Shape(models.TextChoices):
    __empty__ = "Unknown"
    ROUND = "round", "Round"


@pytest.fixture(params=[True, False], ids=["with_time_zones", "without_time_zones"])
def thing(request: pytest.FixtureRequest, settings: Any, transactional_db: None) -> Iterator[Any]:
    """A model with a field of each type, in a site with time zones and in one without."""
    settings.USE_TZ = request.param
    with isolate_apps("example_site.helpdesk"):

        class Thing(models.Model):
            number = models.BigIntegerField()
            small = models.PositiveSmallIntegerField(null=True, blank=True, choices=[(1, "One")])
            price = models.DecimalField(max_digits=14, decimal_places=10)
            discount = models.DecimalField(max_digits=14, decimal_places=10, null=True, blank=True)
            weight = models.FloatField()
            is_new = models.BooleanField(null=True, blank=True)
            name = models.CharField(max_length=20, blank=True)
            shape = models.CharField(max_length=20, choices=Shape, null=True, blank=True)
            email = models.EmailField(blank=True)
            url = models.URLField(blank=True)
            slug = models.SlugField(blank=True)
            file = models.FileField(blank=True)
            made = models.DateTimeField()
            day = models.DateField()
            at = models.TimeField()
            takes = models.DurationField()
            waits = models.DurationField(null=True, blank=True)
            uuid = models.UUIDField(null=True)
            address = models.GenericIPAddressField(null=True, blank=True)
            data = models.JSONField(default=dict, blank=True)
            related = models.ForeignKey("self", models.SET_NULL, null=True, blank=True)

            class Meta:
                app_label = "helpdesk"

        with connection.schema_editor() as editor:
            editor.create_model(Thing)
        yield Thing
        with connection.schema_editor() as editor:
            editor.delete_model(Thing)


def made(moment: str, *, is_aware: bool) -> datetime:
    parsed = datetime.fromisoformat(moment)
    return parsed.replace(tzinfo=UTC) if is_aware else parsed


def hostile_rows(model: Any, *, is_aware: bool) -> list[Any]:
    """Rows that a database holds, and that a careless schema forbids."""
    rows = [
        {
            "number": 2**62,
            "price": Decimal("0E-10"),
            "weight": float("inf"),
            "made": made("0900-01-02T03:04:05.000006", is_aware=is_aware),
            "day": date(987, 1, 2),
            "at": time(8, 30),
            "takes": timedelta(seconds=1.5),
            "data": "text",
        },
        {
            "number": -1,
            "price": Decimal("1.234E-7"),
            "weight": -0.0,
            "email": "not an address",
            "url": "//no scheme/ü",
            "name": "",
            "shape": "",
            "made": made("2026-01-02T03:04:05", is_aware=is_aware),
            "day": date(2026, 1, 2),
            "at": time(23, 59, 59, 999_999),
            "takes": timedelta(seconds=-5),
            "waits": timedelta(days=-40_000, microseconds=1),
            "uuid": UUID(int=0),
            "address": "::ffff:1.2.3.4",
            "data": [1, None],
            "small": 9,
        },
    ]
    made_rows = [model.objects.create(**row) for row in rows]
    made_rows[1].related = made_rows[0]
    made_rows[1].save()
    return made_rows


def server_of(model: Any) -> Server:
    names = [field.name for field in model._meta.fields if field.name != "id"]
    declared = {
        "model": model,
        "fields": ["pk", *names, "related__email", "related__price", "related__made"],
        "operations": ["list", "get", "aggregate", "create", "update"],
        "write_fields": [name for name in names if name not in ("file", "url")],
        "filter_fields": {"takes": ["gte", "lt"], "made": ["exact", "gte"]},
        "ordering_fields": ["takes", "price", "made", "at"],
        "group_fields": ["price", "takes", "weight", "made", "day", "email"],
        "aggregate_fields": {
            "price": ["sum", "avg", "min", "max"],
            "weight": ["sum", "avg", "min", "max"],
            "number": ["avg", "max"],
            "takes": ["sum", "avg", "min", "max"],
            "made": ["min", "max"],
            "at": ["min"],
        },
    }
    server = Server("things", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    kind: Any = type("Things", (ModelToolset,), declared)
    kind.__mcp_register__(server)
    return server


AGGREGATES = [
    "price__sum", "price__avg", "price__min", "weight__sum", "weight__avg", "weight__max",
    "number__avg", "number__max", "takes__sum", "takes__avg", "takes__min", "made__max", "at__min",
]  # fmt: skip


def test_rows_of_a_toolset_meet_their_output_schemas(ajv: Any, thing: Any) -> None:
    is_aware = connection.timezone is not None
    first, second = hostile_rows(thing, is_aware=is_aware)
    user = User.objects.create(username="ann", is_superuser=True)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_things", {}),
        ("list_things", {"ordering": ["-takes", "price"]}),
        ("list_things", {"takes__gte": "-PT5S", "takes__lt": "PT1.5S"}),
        ("get_thing", {"pk": first.pk}),
        ("aggregate_things", {"aggregates": AGGREGATES}),
        ("aggregate_things", {"aggregates": AGGREGATES, "group_by": ["price", "takes", "weight"]}),
        ("aggregate_things", {"group_by": ["made__month", "day__year", "email"]}),
        ("update_thing", {"pk": first.pk, "email": "", "waits": "-PT1.5S", "shape": None}),
        ("update_thing", {"pk": second.pk, "small": None, "discount": None, "related": None}),
    ]
    with SyncClient(server_of(thing), user=user) as client:
        tools = {tool["name"]: tool for tool in client.list_tools()}
        results = [(name, client.call_tool(name, arguments)) for name, arguments in calls]
    cases = [
        Case(f"{name} {number}", tools[name]["outputSchema"], result.structured)
        for number, (name, result) in enumerate(results)
    ]
    assert [result.text for _, result in results if result.is_error] == []
    assert ajv(cases) == {}
    assert in_python(cases) == {}

    rows = results[0][1].structured["items"]
    assert [row["price"] for row in rows] == ["0.0000000000", "0.0000001234"]
    assert [row["weight"] for row in rows] == [None, 0.0]
    assert [row["takes"] for row in rows] == ["P0DT00H00M01.500000S", "-P0DT00H00M05S"]
    # What was written can be sent as it is, and times with an offset are those of the site.
    with SyncClient(server_of(thing), user=user) as client:
        at = {"made": "2026-03-01T12:00:00+02:00"}
        updated = client.call_tool("update_thing", {"pk": first.pk, **at})
        assert updated.structured["made"] == "2026-03-01T10:00:00" + ("Z" if is_aware else "")
        assert len(client.call_tool("list_things", at).structured["items"]) == 1
        rows[0]["made"] = updated.structured["made"]
        for row in rows:
            found = client.call_tool("list_things", {"made": row["made"]})
            assert [each["pk"] for each in found.structured["items"]] == [row["pk"]]


class Typed(TypedDict):
    at: datetime
    moment: time
    takes: timedelta
    price: Decimal
    day: date
    key: UUID
    address: IPv4Address | IPv6Address
    url: AnyUrl


class Document(BaseModel):
    rows: list[Typed]
    data: bytes
    extra: dict[str, timedelta]


def typed(**values: Any) -> Typed:
    row: Any = {
        "at": datetime(2026, 1, 2, 3, 4, 5),
        "moment": time(8, 30),
        "takes": timedelta(seconds=1.5),
        "price": Decimal("0E-10"),
        "day": date(1, 1, 1),
        "key": UUID(int=1),
        "address": IPv6Address("::1"),
        "url": AnyUrl("http://müller.example/ü|x"),
        **values,
    }
    typed_row: Typed = row
    return typed_row


def test_typed_results_meet_their_output_schemas(ajv: Any) -> None:
    server = Server("typed", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    odd_zone = timezone(timedelta(minutes=53, seconds=28))
    rows = [
        typed(),
        typed(at=datetime(1890, 1, 1, tzinfo=odd_zone), takes=timedelta(seconds=-5)),
        typed(at=datetime(2026, 1, 1, tzinfo=UTC), address=IPv4Address("1.2.3.4")),
    ]

    @server.tool
    def row() -> Typed:
        return rows[0]

    @server.tool
    def several() -> list[Typed]:
        return rows

    @server.tool
    def document() -> Document:
        return Document(rows=rows, data=b"a", extra={"a": timedelta(days=-1, microseconds=1)})

    with SyncClient(server) as client:
        tools = client.list_tools()
        cases = [
            Case(tool["name"], tool["outputSchema"], client.call_tool(tool["name"], {}).structured)
            for tool in tools
        ]
    assert len(cases) == 3
    assert ajv(cases) == {}
    assert in_python(cases) == {}
    (of_row,) = [case.schema for case in cases if case.name == "row"]
    properties = of_row["properties"]
    formats = {name: member.get("format") for name, member in properties.items()}
    assert {name: each for name, each in formats.items() if each} == {"day": "date", "key": "uuid"}
