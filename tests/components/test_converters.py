"""The table of serializers: entries of the site, of Django's types, and unsupported ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.forms.utils import ErrorList
from django.utils.functional import SimpleLazyObject

from django_mcp import ConfigurationError, register_serializer
from django_mcp.components import converters
from django_mcp.components.base import UnserializableResult
from django_mcp.components.results import encode_structure, tool_result
from django_mcp.components.serialization import jsonable
from django_mcp.components.tool import tool_component

if TYPE_CHECKING:
    from pytest_django import Settings


class Money:
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Cents(Money):
    pass


class Tags(list[str]):
    pass


@pytest.fixture(autouse=True)
def _own_entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(converters, "_registered", {})
    converters.clear_cache()
    yield
    monkeypatch.undo()
    converters.clear_cache()


def money_to_json(money: Money) -> str:
    return f"{money.amount} CHF"


def returned(value: Any) -> Any:
    """The structured content, which is the same if it is encoded early."""
    tool = tool_component(lambda: None, name="it")
    structure = tool_result(tool, value)["structuredContent"]
    early = encode_structure(tool, value)
    assert early is None or json.loads(early) == structure
    return structure


class TestRegistration:
    def test_serializer_applies_to_subclasses_and_inside_values(self) -> None:
        register_serializer(Money, money_to_json)
        assert returned({"a": Money(1), "b": [Cents(2)]}) == {"a": "1 CHF", "b": ["2 CHF"]}

    def test_serializer_of_the_nearest_base_is_used(self) -> None:
        register_serializer(Money, money_to_json)
        register_serializer(Cents, lambda cents: cents.amount)
        assert returned([Cents(2), Money(1)]) == [2, "1 CHF"]

    def test_serializer_may_replace_that_of_a_type_of_python(self) -> None:
        value = {"price": Decimal("1.50"), "tags": Tags(["a"])}
        assert returned(value) == {"price": "1.50", "tags": ["a"]}
        register_serializer(Decimal, float)
        register_serializer(Tags, ",".join)
        assert returned(value) == {"price": 1.5, "tags": "a"}

    def test_serializer_may_return_values_of_other_types(self) -> None:
        register_serializer(Money, lambda money: {"of": Decimal(money.amount)})
        assert returned([Money(1)]) == [{"of": "1"}]

    def test_return_annotation_with_a_registered_type_has_no_schema(self) -> None:
        register_serializer(Money, money_to_json)

        def prices() -> list[Money]:
            return [Money(1)]

        tool = tool_component(prices)
        assert tool.output is None
        assert tool_result(tool, prices())["structuredContent"] == ["1 CHF"]

    def test_anything_but_a_class_and_a_function_is_rejected(self) -> None:
        for kind, function in (("Money", str), (Money, None)):
            with pytest.raises(ConfigurationError, match="takes a class and a function"):
                register_serializer(kind, function)  # type: ignore[arg-type]

    def test_serializer_can_be_unregistered(self) -> None:
        register_serializer(Money, money_to_json)
        converters.unregister_serializer(Money)
        with pytest.raises(UnserializableResult, match="register_serializer"):
            jsonable([Money(1)])


class TestSetting:
    def test_setting_names_types_and_functions(self, settings: Settings) -> None:
        path = __name__
        settings.DJANGO_MCP = {"SERIALIZERS": {f"{path}.Money": f"{path}.money_to_json"}}
        assert returned([Money(1)]) == ["1 CHF"]
        settings.DJANGO_MCP = {}
        with pytest.raises(UnserializableResult):
            jsonable([Money(1)])

    def test_registered_serializer_precedes_the_setting(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {"SERIALIZERS": {f"{__name__}.Money": f"{__name__}.money_to_json"}}
        register_serializer(Money, lambda money: money.amount)
        assert returned([Money(1)]) == [1]

    def test_path_that_cannot_be_imported_is_an_error(self, settings: Settings) -> None:
        settings.DJANGO_MCP = {"SERIALIZERS": {"shop.Money": "shop.to_json"}}
        with pytest.raises(ImproperlyConfigured, match=r"names 'shop\.Money'"):
            jsonable([Money(1)])


class TestDjango:
    def test_errors_that_are_nested_in_declared_types_keep_their_messages(self) -> None:
        def check() -> dict[str, dict[str, list[str]]]:
            raise NotImplementedError

        errors = {"errors": {"title": ErrorList(["Too long."])}, "other": {}}
        result = tool_result(tool_component(check), errors)
        assert result["structuredContent"] == {"errors": {"title": ["Too long."]}, "other": {}}

    @pytest.mark.parametrize("before", [0, 1, 7, 8, 9, 50])
    def test_errors_behind_other_lists_keep_their_messages(self, before: int) -> None:
        value = [*([number] for number in range(before)), ErrorList(["Too long."])]
        assert returned(value)[-1] == ["Too long."]

    def test_other_empty_lists_stay(self) -> None:
        assert returned({"items": [], "more": {"of": []}}) == {"items": [], "more": {"of": []}}

    def test_lazy_object_is_serialized_as_what_it_contains(self) -> None:
        assert returned([SimpleLazyObject(lambda: {"a": 1})]) == [{"a": 1}]

    def test_error_does_not_contain_the_value(self) -> None:
        with pytest.raises(UnserializableResult) as caught:
            jsonable({"secret": (each for each in ["hunter2"]), "file": open})
        assert "hunter2" not in str(caught.value)

    def test_iterator_is_rejected_with_the_remedy(self) -> None:
        with pytest.raises(UnserializableResult, match=r"Return a list: list\(…\)"):
            returned(map(str, [1]))
