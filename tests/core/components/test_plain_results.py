"""Results of types that JSON has itself: orjson and pydantic write the same bytes."""

from __future__ import annotations

from collections import OrderedDict
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, PlainSerializer
from typing_extensions import TypedDict

from django_mcp.core.components import outputs, serializers
from django_mcp.core.components.base import InvalidOutput, UnserializableResult
from django_mcp.core.protocol import jsonrpc, preencoded
from django_mcp.core.protocol.preencoded import PreEncodedResult


class Row(TypedDict, total=False):
    name: str
    price: float
    count: int | None
    tags: list[str]
    more: dict[str, bool]


class Strict(TypedDict):
    id: Annotated[int, Field(ge=0)]
    ratio: Annotated[float, Field(le=1)]


class Shade(StrEnum):
    DARK = "dark"


class Size(IntEnum):
    LARGE = 3


class Marked(str):
    """A string of a class of its own, as Django's safe strings are."""


class Ratio(float):
    """A number of a class of its own, as those of numpy are."""


LEAVES = st.sampled_from([bool, int, float, str, type(None), Row])


def _containers(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = kinds.map(lambda kind: list[kind])  # type: ignore[valid-type]
    dicts = kinds.map(lambda kind: dict[str, kind])  # type: ignore[valid-type]
    return lists | dicts | kinds.map(lambda kind: kind | None)


KINDS = st.recursive(LEAVES, _containers, max_leaves=3)


def written(kind: Any, value: Any) -> Any:
    """What is written of ``value``, or the error."""
    try:
        return outputs.output_of_type(kind, "a test").encode(value)
    except (InvalidOutput, UnserializableResult) as error:
        return type(error), str(error)


def written_by_pydantic(kind: Any, value: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "_is_plain_schema", lambda node: False)
        # What is kept of built-in types was made without this change.
        patch.setattr(outputs, "_is_built_in", lambda kind: False)
        return written(kind, value)


@settings(deadline=None)
@given(st.data())
def test_orjson_writes_the_bytes_of_pydantic(data: st.DataObject) -> None:
    kind: Any = data.draw(KINDS)
    value = data.draw(st.from_type(kind))

    assert outputs._Adapted.of(kind).is_plain
    assert written(kind, value) == written_by_pydantic(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, Shade.DARK),
        (str, Marked("é\u2028\x7f")),
        (str, "\ud800"),
        (int, Size.LARGE),
        (int, True),
        (int, 2**64),
        (int, 10**400),
        (float, 3),
        (float, Ratio(0.1)),
        (float, 1e16),
        (float, 5e-324),
        (float, -0.0),
        (float, float("nan")),
        (list[float | None], [None, 1.0]),
        (list[float], [float("inf")]),
        (dict[str, int], OrderedDict(b=1, a=2)),
        (dict[str, int], {Marked("a"): 1}),
        (list[str], ("a", "b")),
        (Row, {"price": 1, "name": Marked("x")}),
        (Row, {"unknown": 1}),
        (Row, {"tags": [], "name": "b", "count": None, "price": 1.5}),
        (Row, {"price": float("nan"), "count": None}),
        (Row, {"price": float("-inf"), "name": 1}),
        (Row, {"name": "null", "price": "1.5"}),
        (Row, {"count": 2**70, "price": 1.5}),
        (Row, [("name", "a")]),
        (Row, {"name": date(2026, 11, 27)}),
        (Strict, {"id": 1}),
        (Strict, {"ratio": 0.5, "id": 1}),
        (Strict, {"ratio": 0.5, "id": -1}),
        (Strict, {"ratio": 2.0, "id": 1}),
        (Strict, {"ratio": float("nan"), "id": 1}),
        (Annotated[float, Field(allow_inf_nan=False)], float("nan")),
        (float, Decimal("1.5")),
        (float, Decimal("NaN")),
        (list[float], [float("nan")] * 1_500),
        (dict[str, float | None], {"a": None, "b": float("inf")}),
        (list[list[float]], [[], [1.0, float("nan")]]),
        (list[int], range(3)),
        (list[str], {"a": 1}.keys()),
    ],
)
def test_unusual_value_is_written_alike(kind: Any, value: Any) -> None:
    assert written(kind, value) == written_by_pydantic(kind, value)


def test_row_of_floats_and_none_is_not_searched_for_other_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finite = Mock()
    monkeypatch.setattr(serializers, "finite", finite)

    json = written(list[Row], [{"price": 1.5, "count": None}])

    assert json == b'[{"price":1.5,"count":null}]'
    finite.assert_not_called()


@pytest.mark.parametrize(("kind", "item"), [(float, float("nan")), (int, "a")])
def test_iterator_with_an_invalid_item_is_an_error(kind: Any, item: Any) -> None:
    with pytest.raises(InvalidOutput, match="return a list"):
        outputs.output_of_type(list[kind], "a test").encode(iter([kind(1), item]))


class Dated(TypedDict):
    metadata: date


class Labelled(TypedDict):
    name: Annotated[str, Field(serialization_alias="label")]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        dict,
        dict[int, str],
        list[Any],
        bytes,
        Dated,
        Labelled,
        Annotated[int, PlainSerializer(lambda number: -number)],
    ],
)
def test_type_with_a_form_of_its_own_is_left_to_pydantic(kind: Any) -> None:
    assert not outputs._Adapted.of(kind).is_plain


@settings(deadline=None)
@given(st.text())
def test_text_copy_is_quoted_as_pydantic_quotes_it(text: str) -> None:
    json = preencoded.encode_plain({"text": text})
    assert json is not None

    response = preencoded.encode_whole(1, PreEncodedResult(json, json), b"")

    assert response == jsonrpc.encode(
        jsonrpc.result(
            1,
            {
                "content": [{"type": "text", "text": json.decode()}],
                "structuredContent": {"text": text},
            },
        )
    )


def test_built_in_type_is_read_once_for_all_tools() -> None:
    first, second = (outputs.output_of_type(dict[str, list[int]], "a test") for _ in range(2))
    assert first.schema == second.schema
    first.schema["additionalProperties"]["items"]["description"] = "Of the first tool only"
    assert first.schema != second.schema
    assert outputs._built_in.cache_info().hits > 0


def test_unions_that_differ_in_their_order_have_schemas_of_their_own() -> None:
    schemas = [outputs.output_of_type(kind, "a test").schema for kind in (int | str, str | int)]
    types = [[choice["type"] for choice in schema["anyOf"]] for schema in schemas]
    assert types == [["integer", "string"], ["string", "integer"]]


def test_type_of_the_site_is_read_for_each_tool() -> None:
    before = outputs._built_in.cache_info().currsize
    outputs.output_of_type(list[Row], "a test")
    assert outputs._built_in.cache_info().currsize == before
