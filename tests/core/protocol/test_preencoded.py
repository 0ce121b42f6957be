"""A result with pre-encoded structured content equals one that is encoded as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.core.components.serializers import encoded
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.preencoded import PreEncodedList, PreEncodedResult, encode, plain

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
MEMBERS = st.dictionaries(st.sampled_from(["resultType", "_meta", "isError"]), VALUES)


@given(structure=VALUES, members=MEMBERS, identity=st.integers() | st.text())
def test_pre_encoded_result_equals_the_plainly_encoded_result(
    structure: Any, members: dict[str, Any], identity: int | str
) -> None:
    json = encoded(structure)
    result = {**members, "structuredContent": PreEncodedResult(json, b'{"result":%b}' % json)}

    sent = jsonrpc.decode(encode(jsonrpc.result(identity, result)))

    assert sent == jsonrpc.decode(jsonrpc.encode(jsonrpc.result(identity, plain(result))))
    assert sent["result"]["content"] == [{"type": "text", "text": json.decode()}]


def test_result_without_pre_encoded_structure_is_returned_unchanged() -> None:
    result: dict[str, Any] = {"content": []}

    assert plain(result) is result


TEXTS = ["plain", 'a "quoted" word', "C:\\path\\", "tab\tand\nnewline\x00", "größer 🙂", '\\"', ""]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("count", [1, 500])
def test_text_of_small_rows_equals_their_json(text: str, count: int) -> None:
    rows = [{"id": number, "name": text} for number in range(count)]
    json = encoded(rows)

    sent = jsonrpc.decode(
        encode(jsonrpc.result(1, {"structuredContent": PreEncodedResult(json, json)}))
    )

    assert sent["result"]["structuredContent"] == rows
    assert sent["result"]["content"] == [{"type": "text", "text": json.decode()}]


@given(entries=st.lists(VALUES), members=MEMBERS)
def test_pre_encoded_list_equals_the_plainly_encoded_list(
    entries: list[Any], members: dict[str, Any]
) -> None:
    result = {"tools": PreEncodedList("tools", encoded(entries)), **members}

    sent = jsonrpc.decode(encode(jsonrpc.result(1, result)))

    assert sent == jsonrpc.decode(jsonrpc.encode(jsonrpc.result(1, plain(result))))
    assert sent["result"]["tools"] == jsonrpc.decode(encoded(entries))
