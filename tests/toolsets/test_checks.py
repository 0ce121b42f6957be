"""The system check of related models whose rows no toolset limits."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from django import forms
from django.core.checks import CheckMessage, run_checks
from django.core.validators import MaxValueValidator
from django.db import models
from django.test.utils import isolate_apps

from django_mcp import Server, registry
from django_mcp.toolsets import ModelToolset
from tests.toolsets.toolsets import customers, tickets


def found(
    *toolsets: type[ModelToolset], id: str = "django_mcp_toolsets.W001"
) -> list[CheckMessage]:
    server = Server("desk")
    for toolset in toolsets:
        toolset.__mcp_register__(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.registered, "servers", {"desk": server})
        messages = run_checks(tags=["django_mcp"])
    return [each for each in messages if each.id == id]


def test_toolset_without_model_is_reported_unless_others_are_derived_from_it(
    desk_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("example_site.desk.mcp")

    def declare(name: str, base: type, **members: Any) -> Any:
        return type(name, (base,), {"__module__": module.__name__, **members})

    base = declare("Base", ModelToolset)
    derived = declare("Derived", base, model=desk_app.Team, fields=["pk"])
    forgotten = declare("Forgotten", ModelToolset, Meta=type("Meta", (), {"model": desk_app.Team}))
    vars(module).update(Base=base, Derived=derived, Forgotten=forgotten, Other=ModelToolset)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    messages = [
        str(each.msg)
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp_toolsets.W002"
    ]
    assert messages == ["example_site.desk.mcp.Forgotten has no model: no client sees it."]


def teams(models: Any) -> type[ModelToolset]:
    return type("Teams", (ModelToolset,), {"model": models.Team, "fields": ["pk", "name"]})


def test_each_path_and_writable_field_of_a_related_model_is_named(desk_app: Any) -> None:
    customer, team = found(tickets(desk_app))

    assert customer.msg == (
        "tests.toolsets.toolsets.Tickets shows customer__name, customer and links customer: rows "
        "of toolset_desk.Customer, for which the MCP server 'desk' has no toolset. Whoever may "
        "view toolset_desk.Customer reaches all of its rows."
    )
    assert "Tickets links team: rows of toolset_desk.Team" in team.msg


def test_model_on_the_way_to_a_value_is_named(desk_app: Any) -> None:
    fields = ["number", "customer__team__name"]
    deep = tickets(
        desk_app,
        operations=["list"],
        fields=fields,
        filter_fields={},
        search_fields=[],
        ordering_fields=[],
        group_fields=[],
        aggregate_fields={},
    )

    assert [each.msg.partition(": rows of ")[2].split(",")[0] for each in found(deep)] == [
        "toolset_desk.Customer",
        "toolset_desk.Team",
    ]


def test_relation_of_an_own_form_is_named(desk_app: Any) -> None:
    class TicketForm(forms.ModelForm):  # type: ignore[type-arg] # Generic for mypy only.
        class Meta:
            model = desk_app.Ticket
            fields = ["subject", "team"]

    attributes = {"form_class": TicketForm, "write_fields": None, "operations": ["update"]}
    messages = found(tickets(desk_app, **attributes), customers(desk_app))

    assert [each.msg.partition(":")[0] for each in messages] == [
        "tests.toolsets.toolsets.Tickets links team"
    ]


def test_related_models_with_toolsets_are_not_named(desk_app: Any) -> None:
    assert found(tickets(desk_app), customers(desk_app), teams(desk_app)) == []


def test_toolset_with_own_rules_for_related_rows_is_not_named(desk_app: Any) -> None:
    def get_related_queryset(self: Any, frame: Any, model: Any) -> Any:
        return model._default_manager.none()

    assert found(tickets(desk_app, get_related_queryset=get_related_queryset)) == []


def test_columns_for_large_integers_are_named_and_keys_are_not() -> None:
    with isolate_apps("tests.toolsets.desk"):

        class Measured(models.Model):
            id = models.BigAutoField(primary_key=True)
            serial = models.BigIntegerField()
            size = models.PositiveBigIntegerField(null=True)
            count = models.IntegerField()
            limited = models.BigIntegerField(validators=[MaxValueValidator(2**53)])
            barely = models.BigIntegerField(validators=[MaxValueValidator(2**53 + 1)])
            chosen = models.BigIntegerField(choices=[(1, "One")])
            price = models.DecimalField(max_digits=30, decimal_places=2)
            other = models.ForeignKey("self", models.CASCADE)

            class Meta:
                app_label = "toolset_desk"

        names = [field.name for field in Measured._meta.fields]
        declared = {"model": Measured, "fields": names, "permissions": None}
        (message,) = found(type("Many", (ModelToolset,), declared), id="django_mcp.W060")
        fields = {"model": Measured, "fields": ["id", "count", "limited"]}
        assert not found(type("Few", (ModelToolset,), fields), id="django_mcp.W060")
    assert message.msg.endswith(".Many (serial, size, barely). Clients in JavaScript round them.")
