"""admin_tools: what is offered under which names, and system checks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import ConfigurationError, Server, registry
from django_mcp.modeladmin import admin_tools, calls, checks, declaration
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Ticket
from tests.modeladmin import backstage


def names(server: Server, user: Any) -> list[str]:
    with SyncClient(server, user=user) as client:
        return [tool["name"] for tool in client.list_tools()]


def test_site_without_arguments_is_the_default_admin(root: User) -> None:
    server = Server("staff")
    admin_tools(server=server)
    assert "admin_search" in names(server, root)
    with SyncClient(server, user=root) as client:
        listed = json.loads(client.call("admin_list_models").text)["models"]
    labels = {each["model"] for each in listed}
    assert {"helpdesk.Ticket", "auth.User"} <= labels
    assert not {label for label in labels if label.startswith(("oauth2", "django_mcp_approvals"))}


def test_models_are_included_and_excluded(root: User) -> None:
    server = Server("staff")
    chosen = ["helpdesk", "auth.User"]
    admin_tools(server=server, include=chosen, exclude=["helpdesk.Refund"])
    with SyncClient(server, user=root) as client:
        listed = json.loads(client.call("admin_list_models").text)["models"]
        refused = client.call("admin_search", model="helpdesk.Refund")
    assert [each["model"] for each in listed] == [
        "auth.User",
        "helpdesk.Customer",
        "helpdesk.Ticket",
    ]
    refused.assert_error("There is no model")


def test_tools_that_only_read(root: User) -> None:
    server = Server("staff")
    admin_tools(server=server, read_only=True)
    listed = names(server, root)
    assert len(listed) == 7
    assert not {"admin_add", "admin_change", "admin_delete", "admin_run_action"} & {*listed}


def test_tools_that_only_read_say_so_of_each_model(root: User) -> None:
    server = Server("staff")
    admin_tools(server=server, read_only=True, include=["helpdesk"])
    with SyncClient(server, user=root) as client:
        models = client.call_tool("admin_list_models").structured["models"]
        assert {tuple(each["may"]) for each in models} == {("view",)}
        ticket = client.call_tool("admin_describe_model", {"model": "helpdesk.Ticket"}).structured
    assert ticket["may"] == ["view"]
    assert ticket["actions"] == []
    assert ticket["form"].startswith("You may add none")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"include": ["helpdesc"]}, "did you mean 'helpdesk'?"),
        ({"exclude": ["auth.Users"]}, "did you mean 'auth.User'?"),
        ({"include": "helpdesk"}, "include"),
        ({"options": {"delte": {}}}, "did you mean 'delete'?"),
        ({"read_only": True, "options": {"delete": {}}}, "none of the tools"),
    ],
)
def test_unknown_names_are_errors(arguments: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("?", r"\?")):
        admin_tools(server=Server("staff"), **arguments)


def test_options_are_those_of_all_tools_or_of_one(root: User) -> None:
    server = Server("staff")
    admin_tools(server=server, group="office", options={"search": {"title": "Find"}})
    with SyncClient(server, user=root) as client:
        (search,) = [tool for tool in client.list_tools() if tool["name"] == "admin_search"]
    assert search["title"] == "Find"
    assert server.components.groups() == ["office"] or "office" in server.components.groups()


def test_list_asks_the_admin_once_and_imports_no_urls(
    server: Server, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """URLs, with the views behind them, took most of the first list of a process."""
    asked: list[Any] = []

    def has_permission(request: Any) -> bool:
        asked.append(request)
        return True

    monkeypatch.setattr(calls, "resolve", pytest.fail)
    monkeypatch.setattr(backstage.site, "has_permission", has_permission)
    with SyncClient(server, user=root) as client:
        assert len(client.list_tools()) == 11
    assert len(asked) == 1


class NeedsTenant(admin.ModelAdmin):  # type: ignore[type-arg]
    def get_form(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        assert request.tenant
        return super().get_form(request, *args, **kwargs)


def test_checks_find_what_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = admin.AdminSite("elsewhere")
    elsewhere.register(Ticket, NeedsTenant)
    server = Server("staff")
    admin_tools(elsewhere, server=server, include=["helpdesk", "auth"])
    monkeypatch.setattr(registry, "servers", lambda: [server])
    ids = [message.id for message in checks.check_admins(None)]
    assert ids == [f"django_mcp_modeladmin.W00{number}" for number in (1, 2, 3)]


def test_checks_find_nothing_in_a_usable_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("staff")
    admin_tools(backstage.site, server=server)
    monkeypatch.setattr(registry, "servers", lambda: [server])
    assert checks.check_admins(None) == []


def labels_in_schemas(server: Server, user: Any) -> list[list[str] | None]:
    with SyncClient(server, user=user) as client:
        arguments = [tool["inputSchema"]["properties"] for tool in client.list_tools()]
    return [schema["model"].get("enum") for schema in arguments if "model" in schema]


def test_models_that_include_names_are_listed_in_schemas(root: User) -> None:
    server = Server("staff")
    included = ["helpdesk.Ticket", "auth.User", "helpdesk.Refund"]
    admin_tools(server=server, include=included, exclude=["helpdesk.Refund"])
    assert labels_in_schemas(server, root) == [["helpdesk.Ticket", "auth.User"]] * 9


@pytest.mark.parametrize("include", [[], ["helpdesk"], ["helpdesk", "auth.User"]])
def test_models_that_include_does_not_name_are_in_no_schema(root: User, include: Any) -> None:
    """Callers would read of models that the admin hides from them."""
    server = Server("staff")
    admin_tools(server=server, include=include)
    assert labels_in_schemas(server, root) == [None] * 9


def test_many_models_are_in_no_schema(root: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "MAX_LABELS", 1)
    server = Server("staff")
    admin_tools(server=server, include=["helpdesk.Ticket", "auth.User"])
    assert labels_in_schemas(server, root) == [None] * 9
