"""Deleting a row takes along only what the caller may delete and change, on every database."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.testing import accept
from django_mcp.toolsets import ModelToolset
from tests.toolsets.conftest import Caller, Desk, ToolFailed

REJECTED = "^This node cannot be deleted: other rows depend on it"


def toolset(class_name: str, model: Any, /, **attributes: Any) -> type[ModelToolset]:
    """The rows of the caller's team."""

    def get_queryset(self: Any, frame: Any) -> Any:
        return model.objects.filter(team__name=frame.user.username)

    declared = {
        "model": model,
        "operations": ["list", "get", "update", "delete"],
        "fields": ["pk", "team"],
        "get_queryset": get_queryset,
    }
    return type(class_name, (ModelToolset,), {**declared, **attributes})


def nodes(desk: Desk, **attributes: Any) -> type[ModelToolset]:
    return toolset("Nodes", desk.models.Node, **attributes)


def notes(desk: Desk, **attributes: Any) -> type[ModelToolset]:
    return toolset("Notes", desk.models.Note, **attributes)


def teams(desk: Desk) -> type[ModelToolset]:
    declared = {"model": desk.models.Team, "operations": ["get"], "fields": ["pk", "name"]}
    return type("Teams", (ModelToolset,), declared)


def node(desk: Desk, name: str, team: str = "north", parent: Any = None) -> Any:
    own = desk.models.Team.objects.get(name=team)
    return desk.models.Node.objects.create(name=name, team=own, parent=parent)


def note(desk: Desk, team: str = "north", **values: Any) -> Any:
    own = desk.models.Team.objects.get(name=team)
    return desk.models.Note.objects.create(text="Note", team=own, **values)


def exists(row: Any) -> bool:
    return bool(type(row).objects.filter(pk=row.pk).exists())


def test_own_parts_go_with_their_row(desk: Desk) -> None:
    call = desk.serve(nodes(desk), teams(desk))
    root = node(desk, "root")
    part = node(desk, "part", parent=root)

    result = call("delete_node", pk=root.pk)

    assert result == {"pk": root.pk, "deleted": [{"name": "nodes", "count": 2}]}
    assert not exists(root)
    assert not exists(part)


@pytest.mark.parametrize("depth", [1, 2])
def test_hidden_part_of_the_same_model_is_not_deleted(desk: Desk, depth: int) -> None:
    call = desk.serve(nodes(desk), teams(desk))
    root = node(desk, "root")
    between = root if depth == 1 else node(desk, "between", parent=root)
    hidden = node(desk, "hidden", team="south", parent=between)

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert exists(root)
    assert exists(hidden)


def test_hidden_part_is_not_deleted_where_other_models_have_rules_of_their_own(desk: Desk) -> None:
    def get_related_queryset(self: Any, frame: Any, model: Any) -> Any:
        return model.objects.all()

    call = desk.serve(nodes(desk, get_related_queryset=get_related_queryset))
    root = node(desk, "root")
    hidden = node(desk, "hidden", team="south", parent=root)

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert exists(hidden)


@pytest.mark.parametrize("denied", ["get", "delete"])
def test_part_with_a_denied_object_permission_is_not_deleted(desk: Desk, denied: str) -> None:
    def has_object_permission(self: Any, frame: Any, row: Any, operation: str) -> bool:
        return not (row.name == "part" and operation == denied)

    call = desk.serve(nodes(desk, has_object_permission=has_object_permission), teams(desk))
    root = node(desk, "root")
    part = node(desk, "part", parent=root)

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert exists(part)


@pytest.mark.parametrize("denied", ["get", "delete"])
def test_dependent_row_with_a_denied_object_permission_is_not_deleted(
    desk: Desk, denied: str
) -> None:
    def has_object_permission(self: Any, frame: Any, row: Any, operation: str) -> bool:
        return operation != denied

    comments = type(
        "Comments",
        (ModelToolset,),
        {
            "model": desk.models.Comment,
            "fields": ["pk"],
            "has_object_permission": has_object_permission,
        },
    )
    tickets = type(
        "Tickets",
        (ModelToolset,),
        {"model": desk.models.Ticket, "operations": ["delete"], "fields": ["number"]},
    )
    call = desk.serve(tickets, comments)

    with pytest.raises(ToolFailed, match="cannot be deleted"):
        call("delete_ticket", number=1)

    assert desk.models.Ticket.objects.filter(number=1).exists()


def test_second_toolset_of_the_model_limits_the_parts_as_well(desk: Desk) -> None:
    def get_queryset(self: Any, frame: Any) -> Any:
        return desk.models.Node.objects.exclude(name="part")

    narrow = nodes(desk, get_queryset=get_queryset, name="leaf", name_plural="leaves")
    call = desk.serve(nodes(desk), narrow, teams(desk))
    root = node(desk, "root")
    part = node(desk, "part", parent=root)

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert exists(part)


def test_toolset_without_permissions_opens_no_dependent_model(desk: Desk) -> None:
    tickets = type(
        "Tickets",
        (ModelToolset,),
        {
            "model": desk.models.Ticket,
            "operations": ["delete"],
            "fields": ["number"],
            "permissions": None,
        },
    )
    call = desk.serve(tickets)

    with pytest.raises(ToolFailed, match="cannot be deleted"):
        call("delete_ticket", Caller("north", "toolset_desk.view_comment"), number=1)

    both = Caller("north", "toolset_desk.view_comment", "toolset_desk.delete_comment")
    assert call("delete_ticket", both, number=1)["number"] == 1


def test_permission_of_the_dependent_toolset_decides(desk: Desk) -> None:
    declared = {
        "model": desk.models.Comment,
        "operations": ["get", "delete"],
        "fields": ["pk"],
        "permissions": {"get": None, "delete": lambda frame: frame.user.username == "boss"},
    }
    tickets = type(
        "Tickets",
        (ModelToolset,),
        {"model": desk.models.Ticket, "operations": ["delete"], "fields": ["number"]},
    )
    call = desk.serve(tickets, type("Comments", (ModelToolset,), declared))

    with pytest.raises(ToolFailed, match="cannot be deleted"):
        call("delete_ticket", Caller("north"), number=1)

    allowed = Caller("boss", "toolset_desk.delete_ticket")
    assert call("delete_ticket", allowed, number=1)["number"] == 1


def test_approval_of_the_dependent_toolset_is_not_asked_for(desk: Desk) -> None:
    """The documentation says so: its permission is checked, and the approval is that of a tool."""
    declared = {"model": desk.models.Comment, "operations": ["get", "delete"], "fields": ["pk"]}
    waiting = {
        "options": {"delete": {"approval": "toolset_desk.delete_comment"}},
        "confirm_delete": True,
    }
    tickets = type(
        "Tickets",
        (ModelToolset,),
        {"model": desk.models.Ticket, "operations": ["delete"], "fields": ["number"]},
    )
    call = desk.serve(tickets, type("Comments", (ModelToolset,), {**declared, **waiting}))
    with pytest.raises(ToolFailed, match="cannot be deleted"):
        call("delete_ticket", Caller("north", "toolset_desk.delete_ticket"), number=1)
    result = call("delete_ticket", number=1)
    assert {"name": "comment", "count": 1} in result["deleted"], result


CHANGES = ["node", "former_node", "linked_nodes"]
"""SET_NULL, SET_DEFAULT, and a link of a many-to-many field."""


def note_of(desk: Desk, relation: str, root: Any, team: str) -> Any:
    if relation == "linked_nodes":
        made = note(desk, team)
        made.linked_nodes.add(root)
        return made
    return note(desk, team, **{relation: root})


def names_node(desk: Desk, made: Any, relation: str, root: Any) -> bool:
    return bool(desk.models.Note.objects.filter(pk=made.pk, **{relation: root.pk}).exists())


@pytest.mark.parametrize("relation", CHANGES)
def test_hidden_row_is_not_changed(desk: Desk, relation: str) -> None:
    call = desk.serve(nodes(desk), notes(desk), teams(desk))
    root = node(desk, "root")
    hidden = note_of(desk, relation, root, "south")

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert names_node(desk, hidden, relation, root)


@pytest.mark.parametrize("relation", CHANGES)
def test_own_row_is_changed(desk: Desk, relation: str) -> None:
    call = desk.serve(nodes(desk), notes(desk), teams(desk))
    root = node(desk, "root")
    own = note_of(desk, relation, root, "north")

    result = call("delete_node", pk=root.pk)

    assert result["deleted"] == [{"name": "node", "count": 1}]
    assert exists(own)
    assert not exists(root)


@pytest.mark.parametrize("relation", CHANGES)
def test_change_of_other_rows_needs_the_permission_to_change_them(
    desk: Desk, relation: str
) -> None:
    call = desk.serve(nodes(desk))
    root = node(desk, "root")
    own = note_of(desk, relation, root, "north")
    allowed = ["delete_node", "view_node", "view_note", "delete_note"]
    permissions = [f"toolset_desk.{name}" for name in allowed]

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", Caller("north", *permissions), pk=root.pk)
    assert names_node(desk, own, relation, root)

    everything = Caller("north", *permissions, "toolset_desk.change_note")
    assert call("delete_node", everything, pk=root.pk)["pk"] == root.pk


def test_change_with_a_denied_object_permission_is_rejected(desk: Desk) -> None:
    def has_object_permission(self: Any, frame: Any, row: Any, operation: str) -> bool:
        return operation != "update"

    guarded = notes(desk, has_object_permission=has_object_permission)
    call = desk.serve(nodes(desk), guarded, teams(desk))
    root = node(desk, "root")
    own = note(desk, node=root)

    with pytest.raises(ToolFailed, match=REJECTED):
        call("delete_node", pk=root.pk)

    assert names_node(desk, own, "node", root)


def test_links_of_the_deleted_row_itself_need_no_other_permission(desk: Desk) -> None:
    call = desk.serve(notes(desk), teams(desk))
    root = node(desk, "root", team="south")
    own = note(desk)
    own.linked_nodes.add(root)

    result = call("delete_note", pk=own.pk)

    assert result["deleted"] == [{"name": "note", "count": 1}]
    assert exists(root)


def test_changed_rows_are_limited_in_number(desk: Desk) -> None:
    call = desk.serve(nodes(desk, max_deleted=2), notes(desk), teams(desk))
    root = node(desk, "root")
    for _ in range(3):
        note(desk, node=root)

    with pytest.raises(ToolFailed, match="More than 2 other rows"):
        call("delete_node", pk=root.pk)


def test_confirmation_names_what_changes(desk: Desk) -> None:
    call = desk.serve(nodes(desk, confirm_delete=True), notes(desk), teams(desk))
    root = node(desk, "root")
    note(desk, node=root)
    messages = []

    def respond(params: Any) -> Any:
        messages.append(params["message"])
        return accept(delete=True)

    call("delete_node", client={"elicitation": respond}, pk=root.pk)

    expected = f"Delete the node {root.pk}? This deletes 1 node. This changes 1 note."
    assert messages == [expected]
