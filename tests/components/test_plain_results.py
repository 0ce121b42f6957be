"""Results of types that JSON has itself: orjson and pydantic write the same bytes."""

from __future__ import annotations

from collections import OrderedDict
from datetime import date
from enum import IntEnum, StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, PlainSerializer
from typing_extensions import TypedDict

from django_mcp.components import outputs
from django_mcp.components.base import InvalidOutput, UnserializableResult
from django_mcp.protocol import jsonrpc, preencoded
from django_mcp.protocol.preencoded import PreEncodedResult


class Row(TypedDict, total=False):
    name: str
    price: float
    count: int | None
    tags: list[str]
    more: dict[str, bool]


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
        patch.setattr(outputs, "_is_plain", lambda adapter: False)
        return written(kind, value)


@settings(deadline=None)
@given(st.data())
def test_orjson_writes_the_bytes_of_pydantic(data: st.DataObject) -> None:
    kind: Any = data.draw(KINDS)
    value = data.draw(st.from_type(kind))

    assert outputs._is_plain(outputs._adapter(kind))
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
    ],
)
def test_unusual_value_is_written_alike(kind: Any, value: Any) -> None:
    assert written(kind, value) == written_by_pydantic(kind, value)


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
    assert not outputs._is_plain(outputs._adapter(kind))


@settings(deadline=None)
@given(st.text())
def test_text_copy_is_quoted_as_pydantic_quotes_it(text: str) -> None:
    json = preencoded.encode_plain({"text": text})
    assert json is not None

    response = preencoded.encode_structured(1, PreEncodedResult(json, json), b"")

    assert response == jsonrpc.encode(
        jsonrpc.result(
            1,
            {
                "content": [{"type": "text", "text": json.decode()}],
                "structuredContent": {"text": text},
            },
        )
    )
