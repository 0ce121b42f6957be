"""What a peer sends is decoded only if processing it costs little."""

from __future__ import annotations

import json
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidRequest, ParseError
from tests.rows import rows

LIMIT = 8
MEGABYTES = 4 * 1024 * 1024
TEXTS = st.text(st.sampled_from('a,[]{}":\\\n é'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_values_are_counted_as_json_has_them(
    value: Any, ensure_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    # A message of few bytes is not counted, so that it is extended by spaces.
    data = text.encode() + b" " * LIMIT
    if count(value) > LIMIT:
        with pytest.raises(InvalidRequest, match="at most 8 JSON values"):
            jsonrpc.decode_received(data, LIMIT)
    else:
        assert jsonrpc.decode_received(data, LIMIT) == value


def test_long_text_of_commas_is_one_value() -> None:
    text = ',[{"\\' * 500_000
    assert jsonrpc.decode_received(json.dumps([text]).encode()) == [text]


@rows("size", [2, 3, 5, 100, 1000, 5000])
def test_values_of_a_message_of_any_size_are_counted(size: int) -> None:
    few, many = ["x" * size] * 7, ["x" * size] * 8
    assert jsonrpc.decode_received(json.dumps(few).encode(), LIMIT) == few
    with pytest.raises(InvalidRequest, match="at most 8 JSON values"):
        jsonrpc.decode_received(json.dumps(many).encode(), LIMIT)


@rows("others", [0, 10, 100, 1000, 200_000])
def test_large_integer_is_found_among_any_number_of_values(others: int) -> None:
    for texts in (["x" * 100] * (others // 10), [1] * others):
        for data in ([texts, {"a": 2**63}], [*texts, 2**63], [*texts, [2**63]]):
            with pytest.raises(InvalidRequest, match="send it as a string"):
                jsonrpc.decode_received(json.dumps(data).encode(), 300_000)


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * (MEGABYTES // 3 - 2) + b"[]]",
        b"[" + b'"",' * (MEGABYTES // 3 - 2) + b'""]',
        b"[" + b"0," * (MEGABYTES // 2 - 2) + b"0]",
        b'"' * MEGABYTES,
        b'["' + b'\\",' * (MEGABYTES // 3) + b'"]',
        b"[" + b"9" * 4000 + b"," + b"9" * 4000 + b"]",
    ],
    ids=["lists", "texts", "numbers", "quotes", "escaped quotes", "digits"],
)
def test_any_message_is_decoded_or_rejected_in_little_time(data: bytes) -> None:
    jsonrpc.decode_received(b"{}")
    start = process_time()
    with suppress(InvalidRequest, ParseError):
        jsonrpc.decode_received(data)
    assert process_time() - start < 0.3


@rows("number", [2**63 - 1, -(2**63), 0.12345678901234567890123, 10**18])
def test_number_of_64_bits_is_accepted(number: float) -> None:
    assert jsonrpc.decode_received(json.dumps({"a": [number]}).encode()) == {"a": [number]}


def test_long_digits_in_a_text_are_accepted() -> None:
    assert jsonrpc.decode_received(json.dumps([str(2**80)]).encode()) == [str(2**80)]


@rows("number", [2**63, -(2**63) - 1, 10**100])
def test_integer_beyond_64_bits_is_rejected_with_the_remedy(number: int) -> None:
    message = json.dumps({"id": 7, "params": {"a": [{"b": number}]}})
    with pytest.raises(InvalidRequest, match="send it as a string") as caught:
        jsonrpc.decode_received(message)
    assert caught.value.request_id == 7


def test_id_beyond_64_bits_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as caught:
        jsonrpc.decode_received(json.dumps({"id": 10**300}))
    assert caught.value.request_id is None


@rows("digits", ["1e309", "-1e309", "1E+309", "1.5e0400", "9" * 400 + ".0", "[0.1, 1e999]"])
def test_float_beyond_64_bits_is_rejected_with_the_remedy(digits: str) -> None:
    for text in ("short", "long " * 2000):
        message = f'{{"id": 7, "params": {{"text": "{text}", "a": [{{"b": {digits}}}]}}}}'
        with pytest.raises(InvalidRequest, match="send it as a string") as caught:
            jsonrpc.decode_received(message)
        assert caught.value.request_id == 7


@rows("text", ["1e308", "-1.5E+300", "1e-999", "0.1e0001"])
def test_float_of_64_bits_is_accepted(text: str) -> None:
    assert jsonrpc.decode_received(f'{{"a": {text}, "b": "1e999"}}')["a"] == float(text)


def test_integer_of_thousands_of_digits_is_rejected_with_the_remedy() -> None:
    with pytest.raises(InvalidRequest, match="send it as a string") as caught:
        jsonrpc.decode_received(f'{{"id": 7, "params": {{"a": {"9" * 5000}}}}}')
    assert caught.value.request_id == 7


@rows("data", ["\ud800", b"\xff", b"[NaN]", b""])
def test_what_is_no_json_is_rejected(data: bytes | str) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode_received(data)


UNREADABLE = [
    ({"params": {"a": ["\ud83d"]}}, "half of a surrogate pair"),
    ({"params": {"\udc00": 1}}, "half of a surrogate pair"),
    ({"params": {"a": "\ud83d", "b": 2**70}}, "half of a surrogate pair"),
]


@rows(("members", "reason"), UNREADABLE)
def test_grammatical_json_that_cannot_be_read_is_refused_with_the_id(
    members: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        jsonrpc.decode_received(json.dumps({"jsonrpc": "2.0", "id": "a", **members}))
    assert caught.value.request_id == "a"


def test_deeply_nested_message_is_refused_with_the_id() -> None:
    nested = "[" * 300 + "]" * 300
    with pytest.raises(InvalidRequest, match="nested too deeply") as caught:
        jsonrpc.decode_received(f'{{"id": 7, "params": {nested}}}')
    assert caught.value.request_id == 7


@rows("identity", ["\ud83d", 2**70, [1], None])
def test_id_that_cannot_be_sent_is_not_repeated(identity: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        jsonrpc.decode_received(json.dumps({"id": identity, "params": "\ud83d"}))
    assert caught.value.request_id is None


@rows(
    ("value", "reason"),
    [
        ('"\\ud83d"', "surrogate"),
        ("[" * 300 + "]" * 300, "nested"),
        ("1" * 20, "64 bits"),
        ("1" * 5000, "64 bits"),
        ("1e999", "64 bits"),
    ],
)
def test_other_messages_of_a_batch_are_read(value: str, reason: str) -> None:
    sound = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    broken = f'{{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {{"a": {value}}}}}'
    first, second = jsonrpc.decode_messages(f"[{sound}, {broken}]")
    assert jsonrpc.read(first) == jsonrpc.Request(1, "ping", {})
    with pytest.raises(InvalidRequest, match=reason) as caught:
        jsonrpc.read(second)
    assert caught.value.request_id == 2


def test_long_batch_is_refused_before_its_unreadable_elements_are_looked_at() -> None:
    with pytest.raises(InvalidRequest, match="at most 500 messages"):
        jsonrpc.decode_messages(f'[{"[1e400], " * 500}"\\ud83d"]')


def test_integer_of_thousands_of_digits_is_refused_beside_half_a_surrogate_pair() -> None:
    """Neither stands for the other: the integer does not become null."""
    elements = [f'{{"id": 1, "a": {"1" * 5000}}}', '{"id": 2, "a": "\\ud83d"}']
    batch = jsonrpc.decode_messages(f"[{', '.join(elements)}]")
    assert [element.error.request_id for element in batch] == [1, 2]


def test_negative_integer_of_64_bits_is_read_beside_half_a_surrogate_pair() -> None:
    number = -1_234_567_890_123_456_789
    sound = f'{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": {number}}}}}'
    first, _ = jsonrpc.decode_messages(f'[{sound}, {{"id": 2, "a": "\\ud83d"}}]')
    assert jsonrpc.read(first) == jsonrpc.Request(1, "ping", {"a": number})


@rows("data", [b'{"id": 1, "a": "\\ud83d", "b": NaN}', b'{"id": 1, "a": "\\ud83d"', b"[" * 10_000])
def test_what_is_no_json_has_no_id_whatever_else_is_wrong(data: bytes) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode_received(data)
