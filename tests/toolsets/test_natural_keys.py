"""Primary keys that callers write: no row is replaced, whoever's it is, and whoever sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django import forms

from django_mcp import Server
from django_mcp.forms import form_tool
from django_mcp.toolsets import ModelToolset
from django_mcp.ui import form_view
from tests.toolsets.conftest import Caller, Desk, ToolFailed, calls

OPERATIONS = ("list", "get", "create", "update")


def toolset(model: Any, *fields: str, written: tuple[str, ...], **attributes: Any) -> Any:
    """A toolset of the rows of the caller's team, or of those that the manager shows."""

    def get_queryset(self: Any, frame: Any) -> Any:
        return model.objects.filter(team__name=frame.user.username)

    limited = {"get_queryset": get_queryset} if "team" in written else {}
    declared = {
        "model": model,
        "operations": OPERATIONS,
        "fields": fields,
        "write_fields": written,
        "get_related_queryset": lambda self, frame, model: model._base_manager.all(),
        **limited,
        **attributes,
    }
    return type("Rows", (ModelToolset,), declared)


@pytest.fixture
def north(desk: Desk) -> Any:
    return desk.models.Team.objects.get(name="north")


@pytest.fixture
def south(desk: Desk) -> Any:
    return desk.models.Team.objects.get(name="south")


@pytest.fixture
def parts(desk: Desk, north: Any, south: Any) -> Callable[[], Mapping[str, Any]]:
    """Two parts, one of each team; and the rows of the table as they are."""
    model = desk.models.Part
    model.objects.create(code="Pa1", name="mine", team=north)
    model.objects.create(code="Pb1", name="theirs", team=south)
    return lambda: {row.code: (row.name, row.team_id) for row in model.objects.all()}


def test_create_does_not_replace_a_hidden_row(
    desk: Desk, parts: Any, north: Any, south: Any
) -> None:
    call = desk.serve(
        toolset(desk.models.Part, "code", "name", written=("code", "name", "team")),
    )
    before = parts()
    with pytest.raises(ToolFailed, match="already exists"):
        call("create_part", code="Pb1", name="taken", team=north.pk)
    assert parts() == before
    assert call("create_part", code="Pa2", name="new", team=north.pk)["code"] == "Pa2"


def test_create_does_not_replace_a_row_that_the_default_manager_hides(desk: Desk) -> None:
    gadget = desk.models.Gadget
    gadget(code="G1", serial="1", is_archived=True).save()
    call = desk.serve(toolset(gadget, "code", "serial", written=("code", "serial")))
    for given in ({"code": "G1", "serial": "2"}, {"code": "G2", "serial": "1"}):
        with pytest.raises(ToolFailed, match="^The values conflict with those of another row.$"):
            call("create_gadget", **given)
    rows = [*gadget._base_manager.values_list("code", "serial", "is_archived")]
    assert rows == [("G1", "1", True)]
    assert call("create_gadget", code=" G3 ", serial="3") == {"code": "G3", "serial": "3"}


def test_update_cannot_name_another_primary_key(desk: Desk, parts: Any) -> None:
    call = desk.serve(
        toolset(desk.models.Part, "pk", "code", "name", written=("code", "name", "team")),
    )
    before = parts()
    for code in ("Pb1", "Pa9"):
        with pytest.raises(ToolFailed, match="code"):
            call("update_part", pk="Pa1", code=code, name="moved")
    assert parts() == before
    assert call("update_part", pk="Pa1", name="better")["name"] == "better"


def test_update_rejects_a_primary_key_that_the_form_changes(desk: Desk, parts: Any) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = desk.models.Part
            fields = ("name",)

        def clean(self) -> Any:
            self.instance.code = self.cleaned_data["name"]
            return self.cleaned_data

    call = desk.serve(
        toolset(
            desk.models.Part, "pk", "name", written=("team",), write_fields=None, form_class=Form
        )
    )
    before = parts()
    with pytest.raises(ToolFailed, match="^code: The primary key of a row cannot be changed.$"):
        call("update_part", pk="Pa1", name="Pb1")
    assert parts() == before


def test_update_rejects_a_primary_key_that_the_toolset_changes(desk: Desk, parts: Any) -> None:
    def perform_update(self: Any, frame: Any, form: Any) -> None:
        form.instance.code = "Pb1"
        form.save()

    call = desk.serve(
        toolset(
            desk.models.Part,
            "pk",
            "name",
            written=("name", "team"),
            perform_update=perform_update,
            operations=["list", "get", "update"],
        )
    )
    before = parts()
    with pytest.raises(ToolFailed, match="primary key"):
        call("update_part", pk="Pa1", name="moved")
    assert parts() == before


def test_create_does_not_replace_the_parent_of_a_row_with_several_tables(
    desk: Desk, parts: Any, north: Any
) -> None:
    call = desk.serve(
        toolset(
            desk.models.Bolt, "code", "name", "length", key="code",
            written=("code", "name", "team", "length"),
        )
    )  # fmt: skip
    before = parts()
    with pytest.raises(ToolFailed, match="already exists|conflict"):
        call("create_bolt", code="Pb1", name="taken", team=north.pk)
    assert parts() == before
    assert call("create_bolt", code="B1", name="bolt", team=north.pk, length=3)["length"] == 3
    with pytest.raises(ToolFailed, match="code"):
        call("update_bolt", **{"code": "B1", "part_ptr": "Pb1"})
    assert call("update_bolt", code="B1", name="longer", length=4)["length"] == 4
    assert parts() == {**before, "B1": ("longer", north.pk)}


def test_a_one_to_one_primary_key_is_neither_replaced_nor_changed(
    desk: Desk, north: Any, south: Any
) -> None:
    profile = desk.models.Profile
    profile.objects.create(team=north, text="mine")
    profile.objects.create(team=south, text="theirs")
    call = desk.serve(toolset(profile, "pk", "text", written=("team", "text")))
    with pytest.raises(ToolFailed, match="already exists"):
        call("create_profile", team=south.pk, text="taken")
    with pytest.raises(ToolFailed, match="team"):
        call("update_profile", pk=north.pk, team=south.pk, text="taken")
    call("update_profile", pk=north.pk, text="changed")
    rows = {row.team.name: row.text for row in profile.objects.all()}
    assert rows == {"north": "changed", "south": "theirs"}


def test_two_tenants_that_create_one_key_at_once_get_one_row(
    desk: Desk, north: Any, south: Any, database: str
) -> None:
    if desk.connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    both = threading.Barrier(2, timeout=10)
    is_committed = threading.Event()

    def perform_create(self: Any, frame: Any, form: Any) -> None:
        both.wait()  # Both forms are valid now.
        if form.instance.team == south:
            is_committed.wait(10)
        form.save()

    part = desk.models.Part
    written = ("code", "name", "team")
    call = desk.serve(toolset(part, "code", "name", written=written, perform_create=perform_create))

    def create(team: Any) -> str:
        try:
            values = {"code": "P1", "name": team.name, "team": team.pk}
            row = call("create_part", user=Caller(team.name), **values)
        except ToolFailed as error:
            return str(error)
        finally:
            is_committed.set()
            desk.connection.close()  # That of this thread.
        return str(row["name"])

    with ThreadPoolExecutor(2) as threads:
        answers = [*threads.map(create, (north, south))]
    assert answers == ["north", "The values conflict with those of another row."]
    assert part.objects.get().team == north


def part_form(model: Any) -> Any:
    meta = type("Meta", (), {"model": model, "fields": ("code", "name", "team")})
    return type("PartForm", (forms.ModelForm,), {"Meta": meta, "__module__": __name__})


@pytest.mark.parametrize("register", [form_tool, form_view])
def test_a_form_does_not_replace_a_row(desk: Desk, parts: Any, north: Any, register: Any) -> None:
    server = Server("forms")
    part = desk.models.Part
    register(
        part_form(part),
        server=server,
        form_kwargs=lambda frame: {"instance": part.objects.get(code="Pa1")},
    )
    name = "part" if register is form_tool else "submit_part"
    before = parts()
    with pytest.raises(ToolFailed, match="code: The primary key of a row cannot be changed."):
        calls(server)(name, code="Pb1", name="taken", team=north.pk)
    assert parts() == before
    calls(server)(name, code="Pa1", name="better", team=north.pk)
    assert parts()["Pa1"] == ("better", north.pk)


@pytest.mark.parametrize("register", [form_tool, form_view])
def test_a_form_does_not_replace_a_row_that_the_default_manager_hides(
    desk: Desk, register: Any
) -> None:
    gadget = desk.models.Gadget
    gadget(code="G1", serial="1", is_archived=True).save()
    meta = type("Meta", (), {"model": gadget, "fields": ("code", "serial")})
    form = type("GadgetForm", (forms.ModelForm,), {"Meta": meta, "__module__": __name__})
    server = Server("forms")
    register(form, server=server)
    name = "gadget" if register is form_tool else "submit_gadget"
    with pytest.raises(ToolFailed, match="conflicts with other data"):
        calls(server)(name, code="G1", serial="2")
    rows = [*gadget._base_manager.values_list("code", "serial", "is_archived")]
    assert rows == [("G1", "1", True)]


def test_a_form_updates_the_row_of_a_key_that_the_code_chose(desk: Desk, north: Any) -> None:
    profile = desk.models.Profile
    profile.objects.create(team=north, text="old")
    meta = type("Meta", (), {"model": profile, "fields": ("text",)})
    form = type("ProfileForm", (forms.ModelForm,), {"Meta": meta, "__module__": __name__})
    server = Server("forms")
    form_tool(form, server=server, form_kwargs=lambda frame: {"instance": profile(team=north)})
    calls(server)("profile", text="new")
    assert profile.objects.get().text == "new"


def test_a_form_may_copy_a_row_by_code(desk: Desk) -> None:
    ticket = desk.models.Ticket
    meta = type("Meta", (), {"model": ticket, "fields": ("subject",)})
    form = type("TicketForm", (forms.ModelForm,), {"Meta": meta, "__module__": __name__})

    def copy(form: Any, frame: Any) -> Any:
        form.instance.pk = None
        form.instance.number = 99
        form.save()
        return {"number": form.instance.number}

    server = Server("forms")
    form_tool(
        form,
        server=server,
        on_valid=copy,
        form_kwargs=lambda frame: {"instance": ticket.objects.get(number=1)},
    )
    assert calls(server)("ticket", subject="copy") == {"number": 99}
    assert {*ticket.objects.filter(number__in=(1, 99)).values_list("subject", flat=True)} == {
        "Printer 1",
        "copy",
    }


def test_a_form_of_a_row_that_was_deleted_meanwhile_does_not_insert_it_again(
    desk: Desk, parts: Any, north: Any
) -> None:
    part = desk.models.Part
    meta = type("Meta", (), {"model": part, "fields": ("name",)})
    form = type("PartForm", (forms.ModelForm,), {"Meta": meta, "__module__": __name__})

    def kwargs(frame: Any) -> Any:
        instance = part.objects.get(code="Pa1")
        part.objects.filter(code="Pa1").delete()
        return {"instance": instance}

    server = Server("forms")
    form_tool(form, server=server, form_kwargs=kwargs)
    with pytest.raises(ToolFailed, match="^This row does not exist any more.$"):
        calls(server)("part", name="again")
