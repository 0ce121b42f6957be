"""Models with keys of their own, columns without a text, and fields of all kinds."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.paginator import Paginator
from django.db import DataError, connection, models
from django.test.utils import isolate_apps
from django.urls import path

from django_mcp import Server
from django_mcp.modeladmin import admin_tools
from django_mcp.testing import SyncClient
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import read

if TYPE_CHECKING:
    from pytest_django import Settings

SHELF = "helpdesk.Shelf"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kinds(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shelf with parts, whose code is their primary key."""
    with isolate_apps("example_site.helpdesk"):

        class Section(models.Model):
            number = models.IntegerField(unique=True)

            class Meta:
                app_label = "helpdesk"

        class Shelf(models.Model):
            id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
            name = models.CharField(max_length=20)
            slug = models.SlugField()
            day = models.DateField(null=True, blank=True)
            moment = models.DateTimeField(null=True, blank=True)
            address = models.GenericIPAddressField(null=True, blank=True)
            image = models.BinaryField(null=True, blank=True)
            width = models.DecimalField(max_digits=9, decimal_places=3, null=True, blank=True)
            keeper = models.ForeignKey(
                User, models.CASCADE, null=True, blank=True, db_constraint=False
            )
            section = models.ForeignKey(
                Section, models.CASCADE, to_field="number", null=True, blank=True
            )

            class Meta:
                app_label = "helpdesk"

        class Part(models.Model):
            code = models.CharField(max_length=9, primary_key=True)
            shelf = models.ForeignKey(Shelf, models.CASCADE, related_name="parts")
            pieces = models.IntegerField(default=1)
            weight = models.DecimalField(max_digits=9, decimal_places=2, default=Decimal("0.00"))

            class Meta:
                app_label = "helpdesk"

        made: list[Any] = [Section, Shelf, Part]
        for kind in made:
            by_name = apps.all_models["helpdesk"]
            monkeypatch.setitem(by_name, kind.__name__.lower(), kind)
        with connection.schema_editor() as editor:
            for model in made:
                editor.create_model(model)
        # As migrate does; otherwise the cache has a row that a refused call has rolled back.
        ContentType.objects.clear_cache()
        ContentType.objects.get_for_models(*made)
        yield SimpleNamespace(section=Section, shelf=Shelf, part=Part)
        ContentType.objects.clear_cache()
        with connection.schema_editor() as editor:
            for model in reversed(made):
                editor.delete_model(model)


@pytest.fixture
def ask(kinds: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Ask:
    class Parts(admin.TabularInline):  # type: ignore[type-arg]
        model = kinds.part

    class ShelfForm(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = kinds.shelf
            fields = "__all__"
            localized_fields = ["width"]

    class Shelves(admin.ModelAdmin):  # type: ignore[type-arg]
        form = ShelfForm
        list_display = ["name", "section", "keeper__password"]
        prepopulated_fields = {"slug": ["name"]}
        inlines = [Parts]
        search_fields = ["name"]

        def get_object(self, request: Any, object_id: str, from_field: Any = None) -> Any:
            assert "\0" not in object_id, "PostgreSQL refuses it"
            return super().get_object(request, object_id, from_field)

    site = admin.AdminSite("backstage")
    site.register(kinds.shelf, Shelves)
    urls: Any = ModuleType("urls_of_shelves")
    urls.urlpatterns = [path("shelves/", site.urls)]
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    server = Server("shelves")
    admin_tools(site, server=server, prefix="")

    def call(user: Any, tool: str, **arguments: Any) -> Any:
        with SyncClient(server, user=user) as client:
            return client.call_tool(tool, {"model": SHELF, **arguments})

    return call


@pytest.fixture
def shelf(kinds: Any) -> Any:
    made = kinds.shelf.objects.create(name="North", slug="north")
    kinds.part.objects.create(code="a", shelf=made)
    return made


def test_new_object_with_a_key_by_default_is_prepopulated(ask: Ask, root: User, kinds: Any) -> None:
    read(ask(root, "add", values={"name": "South east"}))
    assert kinds.shelf.objects.get().slug == "south-east"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("day", "Enter a valid date."),
        ("moment", "valid date"),
        ("address", "Enter a valid IPv4 or IPv6 address."),
    ],
)
@pytest.mark.parametrize("value", [5, 1.5, True])
def test_number_is_read_like_a_text(
    ask: Ask, root: User, shelf: Any, field: str, message: str, value: Any
) -> None:
    ask(root, "change", pk=str(shelf.pk), values={field: value}).assert_error(message)


def test_list_is_no_date_with_a_time(ask: Ask, root: User, shelf: Any) -> None:
    result = ask(root, "change", pk=str(shelf.pk), values={"moment": [1]})
    result.assert_error("moment: this field takes one value.")


def test_row_of_an_inline_keeps_its_key(ask: Ask, root: User, shelf: Any, kinds: Any) -> None:
    rows = [{"pk": "a", "code": "b", "pieces": 3}]
    result = ask(root, "change", pk=str(shelf.pk), inlines={"parts": rows})
    result.assert_error("parts[0].code: The primary key of a row cannot be changed.")
    read(ask(root, "change", pk=str(shelf.pk), inlines={"parts": [{"pk": "a", "pieces": 3}]}))
    read(ask(root, "change", pk=str(shelf.pk), inlines={"parts": [{"code": "b"}]}))
    assert [*kinds.part.objects.order_by("code").values_list("code", "pieces")] == [
        ("a", 3),
        ("b", 1),
    ]


def test_new_row_of_defaults_alone_is_an_error(ask: Ask, root: User, shelf: Any) -> None:
    for row in ({"pieces": 1}, {"weight": 0}, {"pieces": "1", "weight": 0.0}):
        result = ask(root, "change", pk=str(shelf.pk), inlines={"parts": [row]})
        result.assert_error("a new row needs a value")


def test_number_in_json_is_read_alike_where_numbers_are_localized(
    ask: Ask, root: User, shelf: Any, settings: Settings
) -> None:
    settings.LANGUAGE_CODE = "de"
    settings.USE_THOUSAND_SEPARATOR = True
    read(ask(root, "change", pk=str(shelf.pk), values={"width": 1.234}))
    shelf.refresh_from_db()
    assert shelf.width == Decimal("1.234")


def test_key_of_a_related_object_is_the_one_that_forms_take(
    ask: Ask, root: User, shelf: Any, kinds: Any
) -> None:
    kinds.section.objects.create(number=10)
    section = kinds.section.objects.create(number=7)
    read(ask(root, "change", pk=str(shelf.pk), values={"section": 7}))
    shown = read(ask(root, "search"))["rows"][0]["values"]["section"]
    assert shown == {"key": 7, "label": str(section)}
    assert read(ask(root, "get", pk=str(shelf.pk)))["values"]["section"] == shown


def test_object_with_a_null_in_a_binary_column_is_deleted(
    ask: Ask, root: User, shelf: Any, kinds: Any
) -> None:
    preview = read(ask(root, "delete", pk=str(shelf.pk)))
    read(ask(root, "delete", pk=str(shelf.pk), confirm=preview["confirm"]))
    assert not kinds.shelf.objects.exists()


def test_hash_of_the_password_of_a_related_user_is_in_no_list(
    ask: Ask, root: User, shelf: Any, kinds: Any
) -> None:
    kinds.shelf.objects.update(keeper=root)
    values = {"name": "North", "section": None}
    assert read(ask(root, "search"))["rows"][0]["values"] == values


def test_related_user_who_is_not_there_is_null(
    ask: Ask, root: User, shelf: Any, kinds: Any
) -> None:
    kinds.shelf.objects.update(keeper=root.pk + 1)
    values = {"name": "North", "section": None, "keeper__password": None}
    assert read(ask(root, "search"))["rows"][0]["values"] == values
    kinds.shelf.objects.update(keeper=None)


def test_unknown_filter_does_not_list_the_fields_of_the_model(
    ask: Ask, root: User, shelf: Any
) -> None:
    result = ask(root, "search", filters={"size": 1})
    result.assert_error("The list has no such filter or page: see the filters of the model.")
    assert "image" not in result.text


@pytest.mark.parametrize("tool", ["get", "history", "change", "delete"])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("key", ["zz", "", "\0"])
def test_text_that_is_no_key_is_an_unknown_object(
    ask: Ask,
    root: User,
    shelf: Any,
    staff: Staff,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    is_known: bool,
    key: str,
) -> None:
    # As PostgreSQL, where a change first locks the row.
    monkeypatch.setattr(connection.features, "has_select_for_update", True)
    values = {"values": {"name": "x"}} if tool == "change" else {}
    result = ask(root if is_known else staff(), tool, pk=key, **values)
    result.assert_error("There is no such object" if is_known else "There is no model")


def test_filter_that_the_database_refuses_is_an_error(
    ask: Ask, root: User, shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Any) -> int:
        raise DataError("invalid regular expression")

    monkeypatch.setattr(Paginator, "count", property(refused))
    for arguments in ({"filters": {"name__regex": "("}}, {"text": "("}):
        result = ask(root, "search", **arguments)
        result.assert_error("The list cannot be filtered by these values.")
    # Without values, the failure is one of the site.
    assert "unexpectedly" in ask(root, "search").text


def test_null_character_is_looked_for_nowhere(ask: Ask, root: User, shelf: Any) -> None:
    found = read(ask(root, "autocomplete", field="keeper", text="\0"))
    assert found["options"] == []
    result = ask(root, "change", pk=str(shelf.pk), values={"keeper": "a\0"})
    result.assert_error("keeper: no object has the label")


def test_time_that_no_time_zone_has_is_an_error(ask: Ask, root: User, shelf: Any) -> None:
    result = ask(root, "change", pk=str(shelf.pk), values={"moment": "0001-01-01T00:00:00+14:00"})
    result.assert_error("0001-01-01T00:00:00+14:00")
