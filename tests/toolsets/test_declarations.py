"""Wrong declarations: each is an error at registration, which names the field and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.forms import modelform_factory

from django_mcp import ConfigurationError, Server, registry
from django_mcp.toolsets import ModelToolset
from tests.toolsets.conftest import Desk, ToolFailed
from tests.toolsets.toolsets import customers, tickets


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"fields": []}, "has no fields"),
        ({"fields": "number"}, "fields is the string 'number': write a list, ['number']"),
        ({"fields": "__all__"}, "list those that callers may reach, of 'id', 'number', 'subject'"),
        ({"fields": ["__all__"]}, "Tickets.fields is '__all__', which would include each field"),
        ({"search_fields": "__all__"}, "Tickets.search_fields is '__all__', which would include"),
        ({"write_fields": "__all__"}, "list those that callers may reach, of 'number', 'subject'"),
        ({"write_fields": "number"}, "write_fields is the string 'number': write a list, ['num"),
        ({"fields": ["number", "number"]}, "has 'number' twice"),
        ({"fields": ["number", "colour"]}, "has no field 'colour'. It has: code, created"),
        ({"fields": ["number", "subject__length"]}, "Ticket.subject is no relation"),
        ({"fields": ["number", "comments__text"]}, "has many values: declare a toolset for Com"),
        ({"fields": ["number", "parent__parent__parent__parent__number"]}, "at most 3"),
        ({"fields": ["subject", "customer__name"]}, 'no unique field in fields: add "pk"'),
        ({"key": "subject"}, "'subject', which several rows may have"),
        ({"key": "pk"}, "key is 'pk': add it to fields"),
        ({"operations": ["list", "publish"]}, "'publish', which is no operation: there are list"),
        ({"operations": ["list", "updates"]}, "no operation: did you mean 'update'?"),
        ({"filter_fields": ["status"]}, "must be a dict"),
        ({"filter_fields": {"status": "exact"}}, "is the string 'exact'"),
        ({"filter_fields": {"status": ["exact", "matches"]}}, "Possible are: exact, in"),
        ({"filter_fields": {"status": ["exact", "exact"]}}, "has 'status' twice"),
        ({"filter_fields": {"subject__lower": ["exact"]}}, "Ticket.subject is no relation"),
        ({"filter_fields": {"is_urgent": ["gt"]}}, "the lookup 'gt' for 'is_urgent'"),
        ({"filter_fields": {"data": ["contains"]}}, "the lookup 'contains' for 'data'"),
        ({"filter_fields": {"data__secret": ["exact"]}}, "Ticket.data is no relation"),
        ({"filter_fields": {"subject": ["regex"]}}, "the lookup 'regex' for 'subject'"),
        ({"filter_fields": {"created": ["time__gte"]}}, "a part of a date, such as 'year__gte'"),
        ({"filter_fields": {"customer__password": ["startswith"]}}, "is not in fields: add it"),
        ({"search_fields": ["customer__email"]}, "is not in fields: add it"),
        ({"search_fields": ["number"]}, "which is no text: use filter_fields"),
        ({"ordering_fields": ["customer__team__budget"]}, "is not in fields: add it"),
        ({"ordering_fields": ["description"]}, "texts of at most 500 characters"),
        ({"ordering": ["-code"]}, "callers could find out its order"),
        ({"group_fields": ["customer__password"]}, "is not in fields: add it"),
        ({"group_fields": ["description"]}, "group by a shorter field"),
        (
            {"group_fields": ["created__month"]},
            "group_fields names 'created__month': write 'created', which callers group by "
            "created__year, created__quarter, created__month, created__week, created__day",
        ),
        ({"group_fields": ["subject__month"]}, "Ticket.subject is no relation"),
        ({"group_fields": ["created__hour"]}, "Ticket.created is no relation"),
        ({"group_fields": ["made__month"]}, "Ticket has no field 'made'"),
        ({"aggregate_fields": {"customer__team__budget": ["sum"]}}, "is not in fields: add it"),
        ({"aggregate_fields": {"subject": ["max"]}}, "Possible are: none"),
        ({"aggregate_fields": ["price"]}, "must be a dict"),
        ({"write_fields": ["number", "colour"]}, "is no editable field of Ticket"),
        ({"write_fields": ["number"]}, "have no default: set it in perform_create"),
        ({"form_class": forms.ModelForm}, "has both form_class and write_fields"),
        ({"options": {"publish": {}}}, "Tickets.options has 'publish', which is no operation"),
        ({"options": {"get": "title"}}, "Tickets.options is {'get': 'title'}: write the options"),
        ({"options": None}, "Tickets.options is None: write the options of each operation"),
        ({"options": {"get": {"permission": "superuser"}}}, "write permissions = {'get': …}"),
        ({"permissions": {"view": None}}, "Tickets.permissions has 'view', which is no operation"),
        ({"permissions": {"lists": None}}, "permissions has 'lists', which is no operation: did"),
        (
            {"permissions": "login_required"},
            "Tickets.permissions is 'login_required': write the permission of each operation, such "
            'as {"list": "login_required", "get": "login_required"}',
        ),
        ({"permissions": ["superuser"]}, "Tickets.permissions is ['superuser']: write"),
        ({"model": "Ticket"}, "give a model"),
        ({"page_size": 0}, "page_size is 0: write 1 or more"),
        ({"page_size": 30, "max_page_size": 20}, "page_size is 30, more than max_page_size, 20"),
        ({"max_groups": -1}, "max_groups is -1: write 1 or more"),
        ({"max_text": "50"}, "max_text is '50': write 1 or more"),
        ({"statement_timeout": 0}, "statement_timeout is 0: write 0.001 or more"),
    ],
)
def test_wrong_declaration_is_rejected_with_the_remedy(
    desk_app: Any, attributes: dict[str, Any], problem: str
) -> None:
    toolset = tickets(desk_app, **attributes)
    with pytest.raises(ConfigurationError) as raised:
        toolset.__mcp_register__(Server("desk"))
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"fields": "__all__"}, "of 'id', 'last_login', 'is_superuser', 'username'"),
        ({"fields": ["pk", "password"]}, "fields names 'password', the hash of a password"),
        ({"filter_fields": {"password": ["exact"]}}, "filter_fields names 'password', the hash"),
        ({"write_fields": ["username", "password"]}, "Users.password' is a password"),
        ({"form_class": modelform_factory(User, fields=["password"])}, "password' is a password"),
    ],
)
def test_password_of_a_user_is_neither_read_nor_written(
    attributes: dict[str, Any], problem: str
) -> None:
    declared = {"model": User, "operations": ["list", "update"], "fields": ["pk", "username"]}
    users: Any = type("Users", (ModelToolset,), {**declared, **attributes})
    with pytest.raises(ConfigurationError, match=problem):
        users.__mcp_register__(Server("users"))


def test_all_problems_of_a_declaration_are_reported_at_once(desk_app: Any) -> None:
    toolset = tickets(
        desk_app,
        fields=["number", "colour"],
        filter_fields={"weight": ["exact"], "subject": ["regex", "near"]},
        aggregate_fields={"price": "sum"},
        ordering=["-code"],
        page_sise=3,
    )
    with pytest.raises(ConfigurationError) as raised:
        toolset.__mcp_register__(Server("desk"))
    lines = str(raised.value).splitlines()
    named = ("page_sise", "colour", "weight", "'regex'", "'near'", "-code", "is the string 'sum'")
    assert [sum(name in line for line in lines) for name in named] == [1] * len(named), lines


def test_all_toolsets_of_a_module_are_reported_at_once(
    desk_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import ModuleType

    monkeypatch.setattr(registry, "default", Server("mcp"))
    monkeypatch.setattr(registry.registered, "registrants", [])
    module = ModuleType("desk.mcp")
    module.first = tickets(desk_app, page_sise=3)  # type: ignore[attr-defined]
    module.second = tickets(desk_app, queryset=None)  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError) as raised:
        registry.register_module(module)
    assert ["page_sise" in line for line in str(raised.value).splitlines()] == [True, False]


def test_declaration_that_fails_otherwise_is_named(
    desk_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.toolsets import declaration

    def fail(toolset: Any) -> None:
        raise AttributeError("no column")

    monkeypatch.setattr(declaration, "read", fail)
    with pytest.raises(ConfigurationError, match=r"Tickets cannot be offered: AttributeError: no"):
        tickets(desk_app).__mcp_register__(Server("desk"))


def test_managers_that_need_a_tenant_are_not_asked_while_a_toolset_is_declared(
    desk: Desk,
) -> None:
    models = desk.models
    with models.branch_scope("north"):
        ours = models.Branch.objects.create(name="ours", scope="north")
        theirs = models.Branch.objects.create(name="theirs", scope="south")

    class Lots(ModelToolset):
        model = models.Lot
        operations = ("list", "get", "create", "update")
        fields = ("pk", "name")
        write_fields = ("name", "branch", "others")

        def get_related_queryset(self, frame: Any, model: Any) -> Any:
            return model._base_manager.all()

    call = desk.serve(Lots)  # Outside of any scope.
    with models.branch_scope("north"):
        created = call("create_lot", name="a", branch=ours.pk, others=[ours.pk])
        for field, value in (("branch", theirs.pk), ("others", [theirs.pk])):
            with pytest.raises(ToolFailed, match=f"^{field}: Select a valid choice"):
                call("update_lot", **{"pk": created["pk"], field: value})


def test_toolset_is_found_by_discovery(desk_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("mcp")
    monkeypatch.setattr(registry, "default", server)
    monkeypatch.setattr(registry.registered, "registrants", [])
    own = Server("own")
    from types import ModuleType

    module = ModuleType("desk.mcp")
    vars(module).update(
        ModelToolset=ModelToolset,
        Base=type("Base", (ModelToolset,), {"page_size": 5}),
        Tickets=tickets(desk_app, operations=["list"]),
        Mine=tickets(desk_app, operations=["count"], server=own),
    )
    registry.register_module(module)
    assert [each.name for each in server.components.of_kind("tool")] == ["list_tickets"]
    assert [each.name for each in own.components.of_kind("tool")] == ["count_tickets"]


def test_names_and_scheme_can_be_chosen(desk_app: Any) -> None:
    server = Server("desk")
    chosen = {"name": "case", "name_plural": "cases", "uri_scheme": "desk-case"}
    tickets(desk_app, operations=["list", "get"], **chosen).__mcp_register__(server)
    tickets(desk_app, operations=["get"], uri_scheme="").__mcp_register__(server)
    names = [(each.kind, each.key) for each in server.components.all()]
    assert names == [
        ("tool", "get_case"),
        ("tool", "get_ticket"),
        ("tool", "list_cases"),
        ("resource_template", "desk-case://{number}"),
    ]


def test_field_with_many_values_needs_no_default(desk_app: Any) -> None:
    server = Server("desk")
    declared = {
        "model": desk_app.Note,
        "operations": ["create"],
        "fields": ["pk", "text"],
        "write_fields": ["text", "team", "node", "former_node"],
    }
    notes: Any = type("Notes", (ModelToolset,), declared)
    notes.__mcp_register__(server)
    creates: Any = server.components.find("tool", "create_note")
    assert "linked_nodes" not in creates.input_schema["properties"]


def test_column_that_may_be_null_needs_no_default(desk_app: Any) -> None:
    server = Server("desk")
    fields = ["name", "team"]
    declared = {
        "model": desk_app.Node,
        "operations": ["create"],
        "fields": ["pk", *fields],
        "write_fields": fields,
    }
    nodes: Any = type("Nodes", (ModelToolset,), declared)
    nodes.__mcp_register__(server)
    creates: Any = server.components.find("tool", "create_node")
    assert [*creates.input_schema["properties"]] == fields


def test_options_of_an_operation_are_those_of_its_tool(desk_app: Any) -> None:
    server = Server("desk")
    options = {"delete": {"scopes": ["desk:delete"], "title": "Remove"}}
    tickets(desk_app, options=options).__mcp_register__(server)
    deletes: Any = server.components.find("tool", "delete_ticket")
    assert (deletes.scopes, deletes.title) == (frozenset({"desk:delete"}), "Remove")
    assert deletes.annotations["destructiveHint"] is True
    lists: Any = server.components.find("tool", "list_tickets")
    assert lists.annotations == {"readOnlyHint": True, "openWorldHint": False}
    assert lists.source.startswith("tests.toolsets.toolsets")


def test_group_is_that_of_all_components_unless_options_have_another(desk_app: Any) -> None:
    server = Server("desk")
    options = {"delete": {"group": "cleaning"}}
    toolset = tickets(desk_app, group="tickets", options=options)
    toolset.__mcp_register__(server)
    groups = {component.name: component.group for component in server.components.all()}
    assert groups.pop("delete_ticket") == "cleaning"
    assert {*groups.values()} == {"tickets"}
    assert "ticket" in groups


def test_operation_that_needs_an_approval_has_no_resource(desk_app: Any) -> None:
    server = Server("desk")
    options = {"get": {"approval": "toolset_desk.view_ticket"}}
    tickets(desk_app, options=options).__mcp_register__(server)
    assert not [each for each in server.components.all() if each.kind == "resource_template"]


@pytest.mark.parametrize("verbose_name", ["Größe", "заказ"])
def test_verbose_name_beyond_ascii_names_no_tools(
    desk_app: Any, monkeypatch: pytest.MonkeyPatch, verbose_name: str
) -> None:
    for attribute in ("verbose_name", "verbose_name_raw"):
        monkeypatch.setattr(desk_app.Customer._meta, attribute, verbose_name)
    monkeypatch.setattr(desk_app.Customer._meta, "verbose_name_plural", f"{verbose_name}s")
    server = Server("desk")
    customers(desk_app).__mcp_register__(server)
    names = {component.name for component in server.components.all()}
    assert names == {"list_customers", "get_customer", "customer"}
    tool: Any = server.components.find("tool", "get_customer")
    assert tool.title == f"Get {verbose_name}"
