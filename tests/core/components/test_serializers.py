"""How values become JSON: entries of the site, of Django's types, and what is an error."""

from __future__ import annotations

import json
from collections import ChainMap, UserDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.forms.utils import ErrorList
from django.http.request import HttpHeaders
from django.utils.functional import SimpleLazyObject
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from django_mcp import ConfigurationError, Response, register_serializer
from django_mcp.core.components import serializers
from django_mcp.core.components.base import UnserializableResult
from django_mcp.core.components.resource import resource_component
from django_mcp.core.components.results import encode_structure, read_result, tool_result
from django_mcp.core.components.serializers import jsonable
from django_mcp.core.components.tool import tool_component

if TYPE_CHECKING:
    from pytest_django import Settings


class Money:
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Cents(Money):
    pass


class Color(Enum):
    RED = "red"


class Tags(list[str]):
    pass


@pytest.fixture(autouse=True)
def _own_entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(serializers, "_registered", {})
    serializers.clear_cache()
    yield
    monkeypatch.undo()
    serializers.clear_cache()


def money_to_json(money: Money) -> str:
    return f"{money.amount} CHF"


def year_of(day: date) -> int:
    return day.year


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

    def test_serializer_of_a_type_of_python_applies_deep_inside_rows(
        self, settings: Settings
    ) -> None:
        settings.DJANGO_MCP = {"SERIALIZERS": {"datetime.date": f"{__name__}.year_of"}}
        rows = [{"days": [[date(2026, 11, 27)]], "ok": True}]
        assert serializers.deeply_converted(rows) == [{"days": [[2026]], "ok": True}]

        register_serializer(bool, str)
        assert serializers.deeply_converted(rows) == [{"days": [[2026]], "ok": "True"}]

    def test_rows_of_types_of_python_are_not_searched_one_by_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = [{"id": number, "day": date(2026, 1, 1), "tags": []} for number in range(1000)]
        looked_up = Mock(side_effect=serializers.find)
        monkeypatch.setattr(serializers, "find", looked_up)

        assert returned(rows)[0] == {"id": 0, "day": "2026-01-01", "tags": []}

        assert looked_up.call_count < 100

    @pytest.mark.parametrize("times", [1, 2, 2_000])
    def test_search_of_a_list_that_contains_itself_ends(self, times: int) -> None:
        circle: list[Any] = []
        circle += [circle] * times

        with pytest.raises(RecursionError):
            serializers.deeply_converted(circle)

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
        serializers.unregister_serializer(Money)
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


class TestMappings:
    @pytest.mark.parametrize(
        "value",
        [
            MappingProxyType({"a": 1}),
            ChainMap({"a": 1}, {"a": 2}),
            UserDict({"a": 1}),
            HttpHeaders({"A": 1}),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_any_mapping_is_an_object(self, value: Any) -> None:
        structure = returned(value)
        assert structure == dict(value)
        assert returned([value]) == [structure]
        assert read_result(resource_component(lambda: None, "shop://a"), "shop://a", value)[
            "contents"
        ][0]["text"] == json.dumps(structure, separators=(",", ":"))


class Table:
    """Like a DataFrame of pandas: iterating it yields its columns."""

    def __dataframe__(self) -> None: ...

    def __array__(self) -> None: ...

    def __iter__(self) -> Iterator[str]:
        return iter(["title", "price"])


class Column:
    """Like a Series of pandas, or an array of numpy."""

    def __array__(self) -> None: ...

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class TestTablesOfLibraries:
    @pytest.mark.parametrize(
        ("value", "remedy"),
        [(Table(), r'to_dict\(orient="records"\)'), (Column(), r"tolist\(\), \.to_dict\(\)")],
    )
    def test_table_or_array_is_rejected_with_the_remedy(self, value: Any, remedy: str) -> None:
        for result in (value, [value], {"of": value}):
            with pytest.raises(UnserializableResult, match=remedy):
                returned(result)


class Priced(BaseModel):
    name: str | None = None
    price: float | None = None
    extra: Any = None


class Written(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")
    price: float
    name: str | None = None


@dataclass
class Product:
    price: float
    name: str | None = None


class Line(TypedDict):
    price: float
    name: str | None


NAN = float("nan")
INFINITY = float("inf")


class TestNumbersThatJsonDoesNotHave:
    @pytest.mark.parametrize(
        ("annotation", "value", "path"),
        [
            (None, NAN, "A returned number"),
            (None, {"rows": [{"price": 1.5}, {"price": NAN}]}, "rows.1.price"),
            (None, [-INFINITY], "0"),
            (None, Priced(price=NAN), "price"),
            (None, {"rows": [Priced(extra=[INFINITY])]}, "rows.0.extra.0"),
            (None, {"of": Product(NAN)}, "of.price"),
            (float, NAN, "A returned number"),
            (list[float], [1.0, INFINITY], "1"),
            (list[dict[str, Any]], [{"name": None, "price": INFINITY}], "0.price"),
            (dict, {"price": NAN}, "price"),
            (Priced, Priced(price=NAN), "price"),
            (list[Priced], [{"price": 1.0}, {"price": NAN}], "1.price"),
            (list[Priced], [Priced(extra={"a": NAN})], "0.extra.a"),
            (Product, Product(NAN), "price"),
            (list[Product], [Product(NAN)], "0.price"),
            (Line, {"price": NAN, "name": None}, "price"),
        ],
    )
    def test_number_is_an_error_that_says_where(
        self, annotation: Any, value: Any, path: str
    ) -> None:
        tool = tool_component(lambda: None, name="it", output_schema=annotation)
        for read in (tool_result, encode_structure):
            if read is tool_result or isinstance(value, dict | list):
                with pytest.raises(UnserializableResult, match=f"^{path} is -?(NaN|Infinity), "):
                    read(tool, value)

    def test_number_of_a_resource_or_a_response_is_an_error(self) -> None:
        with pytest.raises(UnserializableResult, match=r"^price is NaN"):
            read_result(resource_component(lambda: None, "shop://a"), "shop://a", {"price": NAN})
        with pytest.raises(UnserializableResult, match=r"^price is NaN"):
            Response.tool().structured({"price": NAN})

    def test_words_in_texts_stay(self) -> None:
        texts = [*(f"NaN and Infinity {number}" for number in range(50)), None]
        assert returned(texts) == texts
        assert returned([Priced(name="NaN")]) == [{"name": "NaN", "price": None, "extra": None}]

    def test_model_may_say_how_they_are_written(self) -> None:
        for annotation in (None, list[Written]):
            tool = tool_component(lambda: None, name="it", output_schema=annotation)
            result = tool_result(tool, [Written(price=NAN)])
            assert result["structuredContent"] == [{"price": "NaN", "name": None}]


class TestTable:
    """The table at the top of the module."""

    @pytest.mark.parametrize("annotated", [False, True])
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (Decimal("1.50"), "1.50"),
            (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (date(2026, 7, 28), "2026-07-28"),
            (timedelta(minutes=1), "PT1M"),
            (Path("a/b"), "a/b"),
            (frozenset({1}), [1]),
            (deque([1]), [1]),
            (Color.RED, "red"),
            (Product(1.5), {"price": 1.5, "name": None}),
            (Priced(price=1), {"name": None, "price": 1.0, "extra": None}),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_value_is_the_same_whether_its_type_is_declared(
        self, value: Any, expected: Any, annotated: bool
    ) -> None:
        kind = dict[str, type(value)] if annotated else None  # type: ignore[misc]
        tool = tool_component(lambda: None, name="it", output_schema=kind)
        assert tool_result(tool, {"of": value})["structuredContent"] == {"of": expected}


class Packet(BaseModel):
    data: bytes


BYTES: list[Any] = [
    {"rows": [{"data": b"\xff"}]},
    {"rows": [Packet(data=b"\xff")]},
    {"rows": [{"data": memoryview(b"text")}]},
    {"rows": [{"data": bytearray(b"\xff")}]},
]


@pytest.mark.parametrize("value", BYTES)
def test_bytes_in_a_result_are_an_error_with_place_and_remedy(value: Any) -> None:
    with pytest.raises(UnserializableResult) as caught:
        jsonable(value)
    assert "bytes, which JSON does not have: return them as base64" in str(caught.value)
    assert str(caught.value).endswith("(at rows.0.data)")


def test_value_without_a_form_in_json_is_named_by_its_place() -> None:
    with pytest.raises(UnserializableResult, match=r"\(at permissions\.1\)$"):
        jsonable({"name": "a", "permissions": [1, object(), object()]})
    with pytest.raises(UnserializableResult) as caught:
        jsonable(object())
    assert "(at" not in str(caught.value)


def test_ranges_of_postgresql_are_objects() -> None:
    ranges = pytest.importorskip("psycopg.types.range")
    days = ranges.DateRange(date(2026, 1, 1), None, "[)")
    assert jsonable([{"days": days, "none": ranges.Range(empty=True)}]) == [
        {
            "days": {"lower": "2026-01-01", "upper": None, "bounds": "[)"},
            "none": {"lower": None, "upper": None, "bounds": "empty"},
        }
    ]


def test_image_with_an_alpha_channel_is_sent_as_png() -> None:
    images = pytest.importorskip("PIL.Image")

    @tool_component
    def picture() -> Any:
        image = images.new("RGBA", (2, 2))
        image.format = "JPEG"
        return image

    (block,) = tool_result(picture, picture.handler())["content"]  # type: ignore[misc]
    assert block["mimeType"] == "image/png"
