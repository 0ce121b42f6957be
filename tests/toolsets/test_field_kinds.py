"""Fields of a site's own, which register_field_kind lets toolsets and forms use."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import isolate_apps

from django_mcp import ConfigurationError, Server, register_field_kind, register_serializer
from django_mcp.core.components import serializers
from django_mcp.forms import form_tool
from django_mcp.runtime.django_types import fields
from django_mcp.runtime.django_types.forms import input_schema_of
from django_mcp.testing import Client
from django_mcp.toolsets import ModelToolset

SCHEMA = {"type": "string", "description": "An address with its prefix, such as 10.0.0.1/24"}


class Network:
    """A value that has no form in JSON by itself."""

    def __init__(self, address: str, prefix: int) -> None:
        self.address = address
        self.prefix = prefix

    @classmethod
    def parse(cls, text: str) -> Network:
        address, slash, prefix = text.partition("/")
        if not slash:
            raise ValueError(text)
        return cls(address, int(prefix))

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


class NetworkFormField(forms.Field):
    def to_python(self, value: Any) -> Any:
        try:
            return Network.parse(value)
        except ValueError as error:
            raise forms.ValidationError("Give an address with its prefix.") from error


class NetworkField(models.Field):  # type: ignore[type-arg]
    """A network, in a column of text."""

    def db_type(self, connection: Any) -> str:
        return "varchar(30)"

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return Network.parse(value)

    def get_prep_value(self, value: Any) -> Any:
        return str(value)

    def formfield(self, **options: Any) -> Any:
        return super().formfield(form_class=NetworkFormField, **options)


class DaysField(models.Field):  # type: ignore[type-arg]
    """Several dates and networks, in a column of text."""

    def db_type(self, connection: Any) -> str:
        return "varchar(90)"

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return [date.fromisoformat(value), Network("10.0.0.0", 24)]

    def get_prep_value(self, value: Any) -> Any:
        return value


class NetworkForm(forms.Form):
    """Reserve a network."""

    network = NetworkFormField(label="Network")
    opened_at = forms.CharField(widget=forms.HiddenInput, initial="now")


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fields, "_registered", {})
    register_field_kind(NetworkField, str, schema=SCHEMA)
    register_field_kind(NetworkFormField, str, schema=SCHEMA)
    register_serializer(Network, str)
    yield
    serializers.unregister_serializer(Network)


@pytest.fixture
def prefix_model(transactional_db: None) -> Iterator[Any]:
    with isolate_apps("tests.toolsets.desk"):

        class Prefix(models.Model):
            network = NetworkField()

            class Meta:
                app_label = "toolset_desk"

        with connection.schema_editor() as editor:
            editor.create_model(Prefix)
        yield Prefix
        with connection.schema_editor() as editor:
            editor.delete_model(Prefix)


def server_of(model: Any) -> Server:
    declared = {
        "model": model,
        "fields": ["pk", "network"],
        "filter_fields": {"network": ["exact", "in"]},
        "operations": ["list", "create"],
        "write_fields": ["network"],
    }
    server = Server("networks")
    type("Prefixes", (ModelToolset,), declared)().register(server)
    return server


@pytest.mark.usefixtures("kinds")
async def test_toolset_reads_filters_and_writes_a_registered_field(prefix_model: Any) -> None:
    user = await User.objects.acreate(username="ann", is_superuser=True)
    async with Client(server_of(prefix_model), user=user) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        properties = tools["list_prefixs"]["inputSchema"]["properties"]
        assert properties["network"]["description"] == SCHEMA["description"]

        for network in ("10.0.0.0/24", "10.0.1.0/24"):
            created = await client.call_tool("create_prefix", {"network": network})
            assert created.structured["network"] == network
        page = await client.call_tool("list_prefixs", {"network": "10.0.1.0/24"})
        assert [row["network"] for row in page.structured["items"]] == ["10.0.1.0/24"]

        refused = await client.call_tool("create_prefix", {"network": "10.0.0.0"})
        assert refused.text == "network: Give an address with its prefix."


@pytest.fixture
def plan_model(transactional_db: None) -> Iterator[Any]:
    with isolate_apps("tests.toolsets.desk"):

        class Plan(models.Model):
            days = DaysField()

            class Meta:
                app_label = "toolset_desk"

        with connection.schema_editor() as editor:
            editor.create_model(Plan)
        yield Plan
        with connection.schema_editor() as editor:
            editor.delete_model(Plan)


@pytest.mark.usefixtures("kinds")
async def test_toolset_reads_a_registered_field_with_a_list_of_dates(plan_model: Any) -> None:
    register_field_kind(DaysField, list[str], schema={"type": "array"})
    await plan_model.objects.acreate(days="2026-05-01")
    user = await User.objects.acreate(username="ann", is_superuser=True)
    server = Server("plans")
    declared = {"model": plan_model, "fields": ["pk", "days"], "operations": ["list", "get"]}
    type("Plans", (ModelToolset,), declared)().register(server)
    expected = ["2026-05-01", "10.0.0.0/24"]
    async with Client(server, user=user) as client:
        page = await client.call_tool("list_plans", {})
        assert page.structured["items"][0]["days"] == expected
        row = await client.call_tool("get_plan", {"pk": page.structured["items"][0]["pk"]})
        assert row.structured["days"] == expected


@pytest.mark.usefixtures("kinds", "transactional_db")
async def test_form_tool_takes_a_registered_field_and_no_hidden_one() -> None:
    server = Server("networks")
    cleaned: list[Any] = []
    form_tool(
        NetworkForm, on_valid=lambda form, _: cleaned.append(form.cleaned_data), server=server
    )

    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert tool["inputSchema"]["properties"] == {"network": {"title": "Network", **SCHEMA}}
        await client.call_tool("network", {"network": "10.0.0.0/8"})
        (data,) = cleaned
        assert (str(data["network"]), data["opened_at"]) == ("10.0.0.0/8", "now")
        hidden = await client.call_tool("network", {"network": "10.0.0.0/8", "opened_at": "then"})
        assert hidden.is_error


@pytest.mark.usefixtures("kinds")
def test_form_of_elicitation_has_the_schema_of_a_registered_field() -> None:
    schema = input_schema_of(NetworkForm)

    assert schema is not None
    assert schema.schema["properties"]["network"] == {"title": "Network", **SCHEMA}


def test_subclass_has_the_kind_of_the_nearest_base(kinds: None) -> None:
    class Own(models.CharField):  # type: ignore[type-arg]
        pass

    register_field_kind(Own, int)

    entry = fields.entry_of(Own(), {models.CharField: "of the package"})
    assert entry == fields.FieldKind(int, {"type": "integer"})
    assert fields.entry_of(models.CharField(), {models.CharField: "of it"}) == "of it"


@pytest.mark.usefixtures("db")
def test_field_without_a_kind_names_the_remedy(prefix_model: Any) -> None:
    with pytest.raises(ConfigurationError, match="register_field_kind"):
        server_of(prefix_model)


def test_type_without_a_schema_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="give register_field_kind a schema"):
        register_field_kind(NetworkField, Network)
    with pytest.raises(ConfigurationError, match="takes a class of fields"):
        register_field_kind("NetworkField", str)  # type: ignore[arg-type]
