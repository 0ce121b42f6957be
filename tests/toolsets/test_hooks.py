"""perform_create, perform_update and perform_delete; and names that are no hooks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_mcp import ConfigurationError, Prompt, Resource, Server, Tool
from django_mcp.toolsets import ModelToolset
from tests.toolsets.conftest import Caller, Desk, ToolFailed
from tests.toolsets.toolsets import customers, new, tickets

WRITTEN = ["number", "subject", "created", "customer"]


def test_perform_create_sets_what_callers_do_not_write(desk: Desk) -> None:
    def perform_create(self: Any, frame: Any, form: Any) -> None:
        form.instance.team = desk.models.Team.objects.get(name=frame.user.username)
        form.save()

    toolset = tickets(desk.models, write_fields=WRITTEN, perform_create=perform_create)
    call = desk.serve(toolset, customers(desk.models))
    values = new(desk)
    del values["team"]
    assert call("create_ticket", **values)["number"] == 50
    assert desk.models.Ticket.objects.get(number=50).team.name == "north"
    with pytest.raises(ToolFailed, match="team: unknown argument"):
        call("create_ticket", **new(desk, number=51))


def test_perform_create_may_return_another_row(desk: Desk) -> None:
    def perform_create(self: Any, frame: Any, form: Any) -> Any:
        return desk.models.Ticket.objects.get(number=1)

    call = desk.serve(tickets(desk.models, perform_create=perform_create), customers(desk.models))
    assert call("create_ticket", **new(desk))["number"] == 1


def test_object_permission_is_asked_of_the_row_as_it_was_created(desk: Desk) -> None:
    def perform_create(self: Any, frame: Any, form: Any) -> None:
        form.instance.code = "set"
        form.save()

    def has_object_permission(self: Any, frame: Any, obj: Any, operation: str) -> bool:
        return operation != "create" or obj.code != "set"

    toolset = tickets(
        desk.models, perform_create=perform_create, has_object_permission=has_object_permission
    )
    call = desk.serve(toolset, customers(desk.models))
    with pytest.raises(ToolFailed, match="You may not create this ticket."):
        call("create_ticket", **new(desk))
    assert not desk.models.Ticket.objects.filter(number=50).exists()


def test_perform_create_that_leaves_a_value_out_is_a_fault_of_the_toolset(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def perform_create(self: Any, frame: Any, form: Any) -> None:
        form.save()

    toolset = tickets(desk.models, write_fields=WRITTEN, perform_create=perform_create)
    call = desk.serve(toolset, customers(desk.models))
    values = new(desk)
    del values["team"]
    with pytest.raises(ToolFailed, match="failed"):
        call("create_ticket", **values)
    (error,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert isinstance(error, ImproperlyConfigured)
    assert "Tickets saves a row without 'team': set it in perform_create" in str(error)


def test_perform_update_sees_the_changed_row(desk: Desk) -> None:
    def perform_update(self: Any, frame: Any, form: Any) -> None:
        form.instance.description = f"{form.changed_data} by {frame.user.username}"
        form.save()

    call = desk.serve(tickets(desk.models, perform_update=perform_update))
    updated = call("update_ticket", number=1, subject="Other")
    assert updated["description"] == "['subject'] by north"


def archive(self: Any, frame: Any, instance: Any) -> None:
    instance.status = "closed"
    instance.save(update_fields=["status"])


def open_tickets(desk: Desk) -> Any:
    return lambda self, frame: desk.models.Ticket.objects.filter(team__name="north", status="open")


def test_perform_delete_keeps_a_row_that_get_queryset_leaves_out(desk: Desk) -> None:
    tool = tickets(desk.models, perform_delete=archive, get_queryset=open_tickets(desk))
    call = desk.serve(tool)
    # Its comments would be deleted with it, for which this caller has no permission.
    user = Caller("north", "toolset_desk.delete_ticket", "toolset_desk.view_ticket")
    assert call("delete_ticket", user=user, number=1) == {
        "number": 1,
        "deleted": [{"name": "ticket", "count": 1}],
    }
    assert desk.models.Ticket.objects.get(number=1).comments.count() == 1
    with pytest.raises(ToolFailed, match="There is no ticket 1."):
        call("delete_ticket", number=1)
    server: Any = call.server  # type: ignore[attr-defined]
    described = {tool.name: tool.description for tool in server.components.all()}
    assert "everything that depends on it" not in described["delete_ticket"]


def test_perform_delete_that_deletes_needs_the_permission_for_what_goes_along(desk: Desk) -> None:
    def perform_delete(self: Any, frame: Any, instance: Any) -> None:
        instance.delete()

    call = desk.serve(tickets(desk.models, perform_delete=perform_delete))
    user = Caller("north", "toolset_desk.delete_ticket", "toolset_desk.view_ticket")
    with pytest.raises(ToolFailed, match="other rows depend on it"):
        call("delete_ticket", user=user, number=1)
    assert desk.models.Ticket.objects.filter(number=1).exists()


async def anyone(self: Any, frame: Any, obj: Any, operation: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("name", "method", "problem"),
    [
        ("get_queryset", lambda self: None, "is called with frame (too many positional"),
        (
            "get_queryset",
            None,
            "is None, which is no function: let its",
        ),
        ("has_object_permission", lambda self, frame, obj: True, "(self, frame, obj, operation)"),
        ("has_object_permission", anyone, "is async: write def instead of async def"),
        ("get_form", lambda self, frame, form_class: None, "(self, frame, form_class, **kwargs)"),
        ("perform_create", lambda self, form: None, "parameters be (self, frame, form)"),
        ("perform_update", lambda self, form: None, "parameters be (self, frame, form)"),
        ("perform_delete", lambda self, row: None, "(self, frame, instance)"),
        ("get_related_queryset", lambda self, frame: None, "(self, frame, model)"),
    ],
)
def test_method_that_cannot_be_called_is_an_error_with_its_parameters(
    desk: Desk, name: str, method: Any, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        desk.serve(tickets(desk.models, **{name: method}))
    assert f"Tickets.{name} " in str(raised.value)
    assert problem in str(raised.value)


def test_methods_may_be_static_and_name_the_keywords_of_a_form(desk: Desk) -> None:
    def get_form(self: Any, who: Any, form_class: Any, data: Any, *, instance: Any) -> Any:
        return form_class(data=data, instance=instance)

    get_queryset = staticmethod(lambda frame: desk.models.Ticket.objects.all())
    desk.serve(tickets(desk.models, get_form=get_form, get_queryset=get_queryset))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("queryset", "write a method 'get_queryset'"),
        ("permission_classes", "write 'permissions'"),
        ("has_permission", "write 'permissions' or a method 'has_object_permission'"),
        ("page_sise", "write 'page_size'"),
        ("perform_destroy", "write 'perform_delete'"),
        ("get_query_set", "write 'get_queryset'"),
        ("Meta", "write its attributes in the class itself"),
    ],
)
def test_unknown_name_in_a_toolset_is_an_error_with_the_right_one(
    desk: Desk, name: str, remedy: str
) -> None:
    value = type("Meta", (), {}) if name == "Meta" else lambda self, frame: None
    with pytest.raises(ConfigurationError, match=rf"Tickets has '{name}' \({remedy}\)"):
        desk.serve(tickets(desk.models, **{name: value}))


def test_unknown_names_are_reported_together_and_from_mixins(desk: Desk) -> None:
    class Mixin:
        owner_of = None

    toolset = type("Mixed", (Mixin, tickets(desk.models, page_sise=5)), {})
    with pytest.raises(ConfigurationError) as rejected:
        desk.serve(toolset)
    assert "'page_sise' (write 'page_size')" in str(rejected.value)
    assert "'owner_of'" in str(rejected.value)
    assert "Begin names of your own with an underscore" in str(rejected.value)


def test_names_of_the_author_are_accepted_in_a_toolset(desk: Desk) -> None:
    def is_clerk(frame: Any) -> bool:
        return True

    own = {
        "_helper": lambda self: None,
        "LIMIT": 3,
        "Status": type("Status", (), {}),
        "is_clerk": staticmethod(is_clerk),
        "may_delete": is_clerk,
        "permissions": {"delete": is_clerk},
    }
    del own["is_clerk"]
    call = desk.serve(tickets(desk.models, **own))
    assert call("get_ticket", number=1)["number"] == 1


def test_a_toolset_that_creates_advises_to_set_the_owner_itself(desk: Desk) -> None:
    with pytest.raises(ConfigurationError) as rejected:
        desk.serve(tickets(desk.models, write_fields=["number"]))
    message = str(rejected.value)
    assert "'subject', 'created', 'customer', 'team' have no default" in message
    assert message.index("perform_create") < message.index("write_fields if callers may choose it")


def test_null_for_an_optional_field_without_null_is_named(desk: Desk) -> None:
    call = desk.serve(tickets(desk.models, write_fields=["data", "subject"], operations=["update"]))
    with pytest.raises(ToolFailed, match="^data: This field cannot be null.$"):
        call("update_ticket", number=1, data=None)


@pytest.mark.parametrize(
    ("base", "method", "given"),
    [(Tool, "execute", {}), (Resource, "read", {"uri": "a://b"}), (Prompt, "get_messages", {})],
)
def test_misspelled_option_of_a_component_is_an_error(
    base: Any, method: str, given: dict[str, Any]
) -> None:
    server = Server("names")
    register = getattr(server, base.__name__.lower())
    answers = {method: lambda self: "it", **given}
    for name, remedy in (("permissions", "permission"), ("scope", "scopes"), ("titel", None)):
        declared = type("Sales", (base,), {**answers, name: "x"})
        if remedy is None:
            register(declared)
            continue
        with pytest.raises(ConfigurationError, match=rf"Sales has '{name}' \(write '{remedy}'\)"):
            register(declared)


def test_a_tool_with_another_method_is_told_the_right_one() -> None:
    declared = type("Sales", (Tool,), {"run": lambda self: "it"})
    with pytest.raises(ConfigurationError, match=r"'run' \(write the method 'execute'\)"):
        Server("names").tool(declared)


def test_a_tool_may_have_attributes_of_its_own() -> None:
    class Convert(Tool):
        """Convert."""

        currencies = ("EUR", "USD")

        def rate(self) -> float:
            return 1.1

        def execute(self, amount: float) -> float:
            return amount * self.rate()

    server = Server("names")
    server.tool(Convert)
    assert [component.name for component in server.components.all()] == ["convert"]


def test_base_toolset_without_model_is_not_checked() -> None:
    class Base(ModelToolset):
        def get_queryset(self, frame: Any) -> Any:
            return self.model._default_manager.all()

    Base.__mcp_register__(Server("names"))
