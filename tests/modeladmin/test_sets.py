"""One set of tools for each model: names, schemas, and who sees them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import ConfigurationError, Server
from django_mcp.modeladmin import admin_tools, declaration
from django_mcp.testing import SyncClient, accept
from example_site.helpdesk.models import Customer, Refund, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Staff
from tests.modeladmin.reading import read

GENERIC = ["autocomplete", "describe_model", "history", "list_models", "recent_actions"]
OF_TICKETS = {
    f"{tool}_helpdesk_ticket" for tool in ("search", "get", "add", "change", "delete", "run_action")
}


def sets_of(site: Any, **options: Any) -> Server:
    server = Server("sets")
    admin_tools(site, server=server, prefix="", one_set_per_model=True, **options)
    return server


@pytest.fixture
def sets() -> Server:
    return sets_of(backstage.site)


def tools(server: Server, user: Any) -> dict[str, dict[str, Any]]:
    with SyncClient(server, user=user) as client:
        return {tool["name"]: tool for tool in client.list_tools()}


def properties(tool: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = tool["inputSchema"]["properties"]
    return arguments


def test_each_model_has_its_tools_beside_those_for_all(sets: Server, root: User) -> None:
    listed = tools(sets, root)
    assert [name for name in listed if "_helpdesk_" not in name and "_auth_" not in name] == GENERIC
    assert {name for name in listed if name.endswith("_helpdesk_ticket")} == OF_TICKETS
    assert len(listed) == len(GENERIC) + 5 * len(OF_TICKETS)
    assert listed["get_auth_user"]["description"].startswith("auth.User: Return an object")


def test_schemas_have_fields_filters_columns_and_actions(sets: Server, root: User) -> None:
    listed = tools(sets, root)
    add = properties(listed["add_helpdesk_ticket"])
    assert "model" not in add
    values = add["values"]
    assert [*values["properties"]] == ["customer", "subject", "description", "status"]
    assert values["required"] == ["customer", "subject", "description"]
    assert values["properties"]["subject"]["maxLength"] == 200
    assert values["properties"]["status"]["enum"] == ["open", "waiting", "closed"]
    assert values["properties"]["status"]["default"] == "open"
    change = properties(listed["change_helpdesk_ticket"])["values"]
    assert "required" not in change
    assert "default" not in change["properties"]["status"]
    search = properties(listed["search_helpdesk_ticket"])
    assert search["filters"]["properties"]["status"]["enum"] == ["open", "waiting", "closed"]
    columns = ["subject", "customer", "status"]
    assert search["ordering"]["items"]["enum"] == [*columns, *(f"-{name}" for name in columns)]
    actions = properties(listed["run_action_helpdesk_ticket"])["action"]["enum"]
    assert actions == ["delete_selected", "close", "move", "export", "break_down"]


def test_schemas_have_inlines_only_where_there_are_some(sets: Server, root: User) -> None:
    listed = tools(sets, root)
    assert "inlines" in properties(listed["change_helpdesk_ticket"])
    assert "inlines" not in properties(listed["change_helpdesk_customer"])


def test_passwords_are_in_no_schema(sets: Server, root: User) -> None:
    listed = tools(sets, root)
    add = properties(listed["add_auth_user"])["values"]
    assert [*add["properties"]] == ["username", "usable_password"]
    change = properties(listed["change_auth_user"])["values"]
    assert {"username", "groups"} <= change["properties"].keys()
    assert "password" not in change["properties"]


def test_object_is_added_found_changed_and_deleted(
    sets: Server, root: User, acme: Customer
) -> None:
    with SyncClient(sets, user=root, elicitation=accept(sure=True)) as client:
        values = {"customer": "Acme", "subject": "Printer", "description": "It is broken."}
        added = read(client.call("add_helpdesk_ticket", values=values))
        found = read(client.call("search_helpdesk_ticket", filters={"status": "open"}))
        changed = {"pk": added["pk"], "values": {"status": "waiting"}}
        client.call("change_helpdesk_ticket", **changed).assert_ok()
        page = read(client.call("get_helpdesk_ticket", pk=added["pk"]))
        closing = {"action": "close", "pks": [added["pk"]]}
        read(client.call("run_action_helpdesk_ticket", **closing))
        closed = Ticket.objects.get().status
        read(client.call("delete_helpdesk_ticket", pk=added["pk"]))
    assert [row["pk"] for row in found["rows"]] == [added["pk"]]
    assert page["values"]["status"] == "waiting"
    assert closed == "closed"
    assert not Ticket.objects.exists()


def test_tool_of_one_model_takes_no_other(sets: Server, root: User, ticket: Ticket) -> None:
    with SyncClient(sets, user=root) as client:
        result = client.call("get_helpdesk_ticket", model="auth.User", pk=root.pk)
    result.assert_error("model: unknown argument (accepted: pk)")


def test_tools_are_listed_for_what_the_caller_may_do(sets: Server, staff: Staff) -> None:
    sam = staff("helpdesk.view_ticket", "helpdesk.add_customer")
    listed = {*tools(sets, sam)}
    assert listed == {
        *GENERIC,
        *("search_helpdesk_ticket", "get_helpdesk_ticket", "run_action_helpdesk_ticket"),
        "add_helpdesk_customer",
    }
    with SyncClient(sets, user=sam) as client:
        hidden = client.call("get_helpdesk_refund", pk=1)
        unknown = client.call("get_helpdesk_nothing", pk=1)
    assert hidden.is_error
    assert str(hidden.error) == str(unknown.error).replace("nothing", "refund")


class RefundsByCaller(admin.ModelAdmin):  # type: ignore[type-arg]
    """What the form, the list and the actions have depends on the caller."""

    fields = ["ticket", "amount", "reason"]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> Any:
        return [] if request.user.is_superuser else ["amount"]

    def get_list_filter(self, request: Any) -> Any:
        return ["amount"] if request.user.is_superuser else []

    def get_sortable_by(self, request: Any) -> Any:
        return ["reason"] if request.user.is_superuser else []

    def get_actions(self, request: Any) -> Any:
        return super().get_actions(request) if request.user.is_superuser else {}


def test_schema_has_nothing_that_depends_on_the_caller(root: User) -> None:
    site = admin.AdminSite("backstage")
    site.register(Refund, RefundsByCaller)
    listed = tools(sets_of(site), root)
    assert "properties" not in properties(listed["add_helpdesk_refund"])["values"]
    assert "properties" not in properties(listed["change_helpdesk_refund"])["values"]
    search = properties(listed["search_helpdesk_refund"])
    assert "properties" not in search["filters"]
    assert "enum" not in search["ordering"]["items"]
    assert "enum" not in properties(listed["run_action_helpdesk_refund"])["action"]


class TicketsOfOwners(admin.ModelAdmin):  # type: ignore[type-arg]
    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is not None and obj.assignee_id == request.user.pk


def test_tool_for_objects_is_listed_where_objects_have_permissions(staff: Staff) -> None:
    site = admin.AdminSite("backstage")
    site.register(Ticket, TicketsOfOwners)
    listed = tools(sets_of(site), staff("helpdesk.view_ticket"))
    assert "delete_helpdesk_ticket" in listed


def test_model_that_is_registered_later_has_tools(root: User) -> None:
    site = admin.AdminSite("backstage")
    server = sets_of(site)
    site.register(Refund)
    assert "get_helpdesk_refund" in tools(server, root)


def test_set_that_only_reads(root: User) -> None:
    listed = tools(sets_of(backstage.site, read_only=True, include=["helpdesk.Ticket"]), root)
    assert [*listed] == sorted([*GENERIC, "get_helpdesk_ticket", "search_helpdesk_ticket"])


def test_held_calls_have_no_tool_that_decides_them(root: User) -> None:
    listed = tools(sets_of(None, include=["django_mcp_approvals"]), root)
    of_calls = [name.partition("_django_mcp")[0] for name in listed if "_django_mcp" in name]
    assert of_calls == ["get", "search"]


def test_options_of_a_tool_are_those_of_each_model(root: User) -> None:
    server = sets_of(
        backstage.site,
        include=["helpdesk.Ticket"],
        group="office",
        options={"get": {"title": "Show", "group": "reading"}},
    )
    assert tools(server, root)["get_helpdesk_ticket"]["title"] == "Show"
    assert sorted(server.components.groups()) == ["office", "reading"]
    of_group = server.components.of_group("reading")
    assert [component.name for component in of_group] == ["get_helpdesk_ticket"]


def test_tools_of_models_are_found_and_need_scopes(root: User, ticket: Ticket) -> None:
    server = Server("sets", tool_search=True)
    admin_tools(backstage.site, server=server, one_set_per_model=True, scopes="desk")
    with SyncClient(server, user=root, scopes={"desk"}) as client:
        found = client.call_tool("find_tools", {"query": "search helpdesk ticket", "limit": 3})
        names = [tool["name"] for tool in found.structured["tools"]]
        call = {"name": "admin_get_helpdesk_ticket", "arguments": {"pk": ticket.pk}}
        assert read(client.call_tool("call_tool", call))["pk"] == ticket.pk
    assert "admin_search_helpdesk_ticket" in names
    with SyncClient(server, user=root, scopes=set()) as client:
        client.call("admin_get_helpdesk_ticket", pk=ticket.pk).assert_challenged("desk")


def test_confirmed_deletion_waits_for_its_approval(root: User, ticket: Ticket) -> None:
    server = sets_of(backstage.site, approval="helpdesk.delete_ticket")
    with SyncClient(server, user=root) as client:
        preview = read(client.call("delete_helpdesk_ticket", pk=ticket.pk))
        confirmed = {"pk": ticket.pk, "confirm": preview["confirm"]}
        client.call("delete_helpdesk_ticket", **confirmed).assert_waits_for_approval()
    assert Ticket.objects.exists()


def test_too_many_models_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "MAX_SETS", 4)
    with pytest.raises(ConfigurationError, match="6 tools for each of 5 models.*at most 4 models"):
        sets_of(backstage.site)
    site = admin.AdminSite("backstage")
    server = sets_of(site)
    for model, model_admin in backstage.site._registry.items():
        site.register(model, type(model_admin))
    with pytest.raises(ConfigurationError, match="at most 4 models"):
        any(server.components.all())


def test_tools_are_made_without_queries(sets: Server, root: User) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert any(sets.components.all())
    assert len(queries) == 0
