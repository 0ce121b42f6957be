"""Headers that repeat parts of the body: decoding, comparison, and declaration by schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol import headers
from django_mcp.core.protocol.errors import HeaderMismatch
from django_mcp.core.protocol.headers import ParamHeader
from tests.rows import rows
from tests.spec import spec

VERSION = "2026-07-28"


def test_only_mcp_headers_are_collected_with_all_values() -> None:
    pairs = [
        (b"host", b"example.com"),
        (b"mcp-method", b"tools/call"),
        (b"mcp", b"x"),
        (b"x-mcp-method", b"x"),
        (b"mcp-method", b"tools/list"),
        (b"mcp-param-region", b"eu"),
    ]
    assert headers.collect(pairs) == {
        b"mcp-method": [b"tools/call", b"tools/list"],
        b"mcp-param-region": [b"eu"],
    }


DECODED = [
    (b"get_weather", "get_weather"),
    (b" \t get_weather\t ", "get_weather"),
    (b"two words", "two words"),
    (b"a\tb", "a\tb"),
    (b"", ""),
    (b"=?base64?SGVsbG8=?=", "Hello"),
    (b"  =?base64?SGVsbG8=?=  ", "Hello"),
    (b"=?base64?4oKs?=", "€"),
    (b"=?base64?IGEg?=", " a "),
    (b"=?base64?Cg==?=", "\n"),
    (b"=?base64??=", ""),
    (b"=?base64?PT9iYXNlNjQ/eD89?=", "=?base64?x?="),
    # A value without both markers is literal text.
    (b"SGVsbG8=", "SGVsbG8="),
    (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
    (b"SGVsbG8=?=", "SGVsbG8=?="),
    (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
    (b"=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
    (b"=?base64?=", "=?base64?="),
    (b"=?utf-8?b?SGVsbG8=?=", "=?utf-8?b?SGVsbG8=?="),
]


@spec("2026/HDR-05", "2026/HDR-06", "2026/HDR-07")
@rows(("raw", "text"), DECODED)
def test_header_value_is_stripped_and_decoded(raw: bytes, text: str) -> None:
    assert headers.decode_value(raw) == text


MALFORMED_VALUES = [
    (b"=?base64?SGVsbG8?=", "no valid Base64"),
    (b"=?base64?SGVsbG8==?=", "no valid Base64"),
    (b"=?base64?SGVs!!!bG8=?=", "no valid Base64"),
    (b"=?base64?SGVs bG8=?=", "no valid Base64"),
    (b"=?base64?SGVsbG9=?=", "no valid Base64"),
    (b"=?base64?_-8=?=", "no valid Base64"),
    (b"=?base64?/w==?=", "no valid Base64"),
    (b"=?base64?7aCA?=", "no valid Base64"),
    (b"caf\xc3\xa9", "characters"),
    (b"caf\xe9", "characters"),
    (b"a\x00b", "characters"),
    (b"a\nb", "characters"),
    (b"a\r\n", "characters"),
    (b"a\x7f", "characters"),
]


@spec("2026/HDR-03", "2026/HDR-07")
@rows(("raw", "problem"), MALFORMED_VALUES)
def test_malformed_header_value_raises_mismatch_with_the_header_name(
    raw: bytes, problem: str
) -> None:
    with pytest.raises(HeaderMismatch, match=f"Mcp-Param-Region.*{problem}") as caught:
        headers.decode_value(raw, header=b"mcp-param-region")
    assert caught.value.data == {"header": "Mcp-Param-Region"}


@rows(
    ("text", "value"),
    [
        ("get_weather", "get_weather"),
        ("two words", "two words"),
        ("", ""),
        ("Hello€", "=?base64?SGVsbG/igqw=?="),
        (" a ", "=?base64?IGEg?="),
        ("a\tb", "=?base64?YQli?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
    ],
)
def test_text_not_allowed_in_a_header_is_encoded_as_base64(text: str, value: str) -> None:
    assert headers.encode_value(text) == value


@settings(max_examples=100, deadline=None)
@given(st.text() | st.text(st.characters(max_codepoint=127)))
def test_any_text_survives_header_encoding(text: str) -> None:
    assert headers.decode_value(headers.encode_value(text).encode("latin-1")) == text


@settings(max_examples=100, deadline=None)
@given(st.binary() | st.binary().map(lambda inside: b"=?base64?" + inside + b"?="))
def test_any_bytes_are_decoded_or_rejected_with_a_mismatch(raw: bytes) -> None:
    try:
        text = headers.decode_value(raw)
    except HeaderMismatch:
        return
    assert headers.decode_value(headers.encode_value(text).encode()) == text


def request_headers(**changes: list[bytes]) -> dict[bytes, list[bytes]]:
    """The headers of a call of the tool "search", with ``changes`` (_ stands for -)."""
    values = {
        b"mcp-protocol-version": [VERSION.encode()],
        b"mcp-method": [b"tools/call"],
        b"mcp-name": [b"search"],
    }
    values |= {b"mcp-" + name.replace("_", "-").encode(): v for name, v in changes.items()}
    return {name: value for name, value in values.items() if value}


MATCHING_HEADERS: list[tuple[str, str | None, dict[str, list[bytes]]]] = [
    ("tools/call", "search", {}),
    ("tools/call", "search", {"name": [b" search\t"], "method": [b" tools/call"]}),
    ("tools/call", "search", {"name": [b"=?base64?c2VhcmNo?="]}),
    ("tools/call", "search", {"session_id": [b"a", b"b"], "param_region": [b"eu"]}),
    ("tools/list", None, {"method": [b"tools/list"], "name": []}),
    ("tools/list", None, {"method": [b"tools/list"], "name": [b"ignored", b"twice"]}),
]


def header_pairs(values: dict[bytes, list[bytes]]) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), *((name, raw) for name, raws in values.items() for raw in raws)]


@spec("2026/XH-09")
@rows(("method", "name", "changes"), MATCHING_HEADERS)
def test_headers_that_match_the_body_are_accepted(
    method: str, name: str | None, changes: dict[str, list[bytes]]
) -> None:
    headers.check(method, name, VERSION, request_headers(**changes))
    headers.RequestHeaders.of(header_pairs(request_headers(**changes))).check(method, name, VERSION)


MISMATCHED_HEADERS = [
    ("protocol_version", [], "is missing"),
    ("protocol_version", [b"2025-11-25"], "differs"),
    ("protocol_version", [b"=?base64?MjAyNi0wNy0yOA==?="], "differs"),
    ("protocol_version", [VERSION.encode()] * 2, "more than once"),
    ("method", [], "is missing"),
    ("method", [b"tools/list"], "differs"),
    ("method", [b"TOOLS/CALL"], "differs"),
    ("method", [b"=?base64?dG9vbHMvY2FsbA==?="], "differs"),
    ("method", [b"tools/call"] * 2, "more than once"),
    ("method", [b"tools\x00call"], "characters"),
    ("name", [], "is missing"),
    ("name", [b"Search"], "differs"),
    ("name", [b""], "differs"),
    ("name", [b"search", b"search"], "more than once"),
    ("name", [b"search, search"], "differs"),
    ("name", [b"=?base64?c2VhcmNo=?="], "no valid Base64"),
]


@spec("2026/HDR-03", "2026/HDR-04", "2026/HDR-08")
@rows(("name", "values", "problem"), MISMATCHED_HEADERS)
def test_headers_that_differ_from_the_body_are_rejected(
    name: str, values: list[bytes], problem: str
) -> None:
    shown = f"Mcp-{name.replace('_', '-').title()}"
    with pytest.raises(HeaderMismatch, match=f"{shown}.*{problem}") as caught:
        headers.check("tools/call", "search", VERSION, request_headers(**{name: values}))
    assert caught.value.data == {"header": shown}
    with pytest.raises(HeaderMismatch, match=problem):
        headers.RequestHeaders.of(header_pairs(request_headers(**{name: values}))).check(
            "tools/call", "search", VERSION
        )


def test_request_headers_are_indexed_by_name() -> None:
    request = headers.RequestHeaders.of(
        [(b"host", b"x"), (b"mcp-name", b"a"), (b"mcp-method", b"b")]
    )
    assert request.get(b"host") == b"x"
    assert request.get(b"mcp-session-id") is None
    assert request.collected() == {b"mcp-name": [b"a"], b"mcp-method": [b"b"]}


def test_encoded_name_in_a_header_does_not_match_the_same_text_in_the_body() -> None:
    name = "=?base64?c2VhcmNo?="
    request = headers.RequestHeaders.of(header_pairs(request_headers(name=[name.encode()])))
    with pytest.raises(HeaderMismatch, match="Mcp-Name.*differs"):
        request.check("tools/call", name, VERSION)


WORDS = st.sampled_from(
    ["tools/call", "search", "é", "a b", " a", "=?base64?YQ==?=", "a", "", "\0"]
)
RAWS = st.sampled_from(
    [b"tools/call", b"search", b"\xc3\xa9", b"a b", b" a", b"=?base64?YQ==?=", b"a"]
)
NAMES = st.sampled_from([headers.METHOD, headers.NAME, headers.PROTOCOL_VERSION, b"host"])


@settings(max_examples=100, deadline=None)
@given(WORDS, st.none() | WORDS, WORDS, st.data())
def test_fast_header_check_agrees_with_the_full_check(
    method: str, name: str | None, version: str, data: st.DataObject
) -> None:
    exact = [
        (headers.METHOD, method),
        (headers.NAME, name or ""),
        (headers.PROTOCOL_VERSION, version),
    ]
    pairs = [(header, text.encode()) for header, text in exact]
    pairs[data.draw(st.integers(0, 2))] = data.draw(st.tuples(NAMES, RAWS))
    pairs += data.draw(st.lists(st.tuples(NAMES, RAWS), max_size=1))

    def is_rejected(check: Callable[[], None]) -> bool:
        try:
            check()
        except HeaderMismatch:
            return True
        return False

    collected = headers.collect(pairs)
    assert is_rejected(
        lambda: headers.RequestHeaders.of(pairs).check(method, name, version)
    ) is is_rejected(lambda: headers.check(method, name, version, collected))


@spec("2026/HDR-01", "2026/TASK-18")
def test_name_header_sources_are_defined_for_the_methods_of_the_specification() -> None:
    assert headers.NAME_SOURCES == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }


def properties(**inner: Any) -> dict[str, Any]:
    return {"type": "object", "properties": inner}


SCHEMA = properties(
    region={"type": "string", "x-mcp-header": "Region"},
    limits=properties(
        rows={"type": "integer", "x-mcp-header": "X-Rows"},
        properties={"type": "boolean", "x-mcp-header": "odd"},
    ),
    free={"type": "string"},
    # Data and names, not annotations.
    sample={"type": "object", "default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": 1}]},
    **{"x-mcp-header": {"type": "string"}},
)

PARAMS = (
    ParamHeader(("region",), b"mcp-param-region"),
    ParamHeader(("limits", "rows"), b"mcp-param-x-rows"),
    ParamHeader(("limits", "properties"), b"mcp-param-odd"),
)


@spec("2026/XH-03")
def test_parameter_headers_are_collected_from_the_schema() -> None:
    assert headers.param_headers(SCHEMA) == PARAMS
    assert headers.param_headers({"type": "object"}) == ()


MARKED = {"type": "string", "x-mcp-header": "Region"}

MISPLACED = [
    (MARKED, "at # is not on a property"),
    (properties(a={"type": "array", "items": MARKED}), "#/properties/a/items is not on a property"),
    ({"anyOf": [properties(a=MARKED)]}, "#/anyOf/0/properties/a is not on a property"),
    ({"allOf": [properties(a=MARKED)]}, "not on a property"),
    ({"oneOf": [properties(a=MARKED)]}, "not on a property"),
    ({"not": properties(a=MARKED)}, "not on a property"),
    ({"if": properties(a=MARKED)}, "not on a property"),
    ({"then": properties(a=MARKED)}, "not on a property"),
    ({"$defs": {"a": MARKED}}, "not on a property"),
    ({"$defs": {"properties": properties(a=MARKED)}}, "not on a property"),
    ({"patternProperties": {"^a": MARKED}}, "not on a property"),
    ({"additionalProperties": MARKED}, "not on a property"),
    ({"prefixItems": [MARKED]}, "not on a property"),
    (properties(a={"type": "string", "x-mcp-header": ""}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": None}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": 1}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": "a b"}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": "a:b"}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": "user_id"}), "letters, digits and hyphens"),
    (properties(a={"type": "string", "x-mcp-header": "user.id"}), "letters, digits and hyphens"),
    (properties(a={"type": "string", "x-mcp-header": "a\r\nb"}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": "a\n"}), "no header name"),
    (properties(a={"type": "string", "x-mcp-header": "é"}), "no header name"),
    (properties(a={"type": "number", "x-mcp-header": "A"}), "string, integer or boolean"),
    (properties(a={"type": "object", "x-mcp-header": "A"}), "string, integer or boolean"),
    (properties(a={"type": ["string", "null"], "x-mcp-header": "A"}), "leave an optional one out"),
    (properties(a={"anyOf": [{"type": "string"}], "x-mcp-header": "A"}), "leave an optional one"),
    (properties(a={"x-mcp-header": "A"}), "string, integer or boolean"),
    (properties(a=MARKED, b={"type": "string", "x-mcp-header": "REGION"}), "header of 'a'"),
    (properties(a=properties(b=MARKED), c=MARKED), "header of 'a.b'"),
]


@spec("2026/XH-01", "2026/XH-02", "2026/XH-03")
@rows(("schema", "remedy"), MISPLACED)
def test_invalid_header_annotation_is_rejected_with_a_remedy(
    schema: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        headers.param_headers(schema)


# arguments, headers
MATCHING_PARAMS: list[tuple[dict[str, Any], dict[str, list[bytes]]]] = [
    ({}, {}),
    ({"region": None, "limits": None}, {}),
    ({"limits": {"rows": None}}, {}),
    ({"limits": [1]}, {}),
    ({"region": {"of": "the wrong type"}}, {}),
    ({"region": "eu"}, {"region": [b"eu"]}),
    ({"region": ""}, {"region": [b""]}),
    ({"region": "é"}, {"region": [b"=?base64?w6k=?="]}),
    ({"region": "true"}, {"region": [b"true"]}),
    ({"limits": {"rows": 42}}, {"x_rows": [b"42"]}),
    ({"limits": {"rows": 42}}, {"x_rows": [b"42.0"]}),
    ({"limits": {"rows": 42.0}}, {"x_rows": [b" 42 "]}),
    ({"limits": {"rows": -7}}, {"x_rows": [b"-7"]}),
    ({"limits": {"rows": 0}}, {"x_rows": [b"-0"]}),
    ({"limits": {"rows": 2**53 - 1}}, {"x_rows": [b"9007199254740991"]}),
    ({"limits": {"properties": True}}, {"odd": [b"true"]}),
    ({"limits": {"properties": False}}, {"odd": [b"false"]}),
    ({}, {"unknown": [b"a", b"b"]}),
]

MISMATCHED_PARAMS: list[tuple[dict[str, Any], dict[str, list[bytes]], str]] = [
    ({"region": "eu"}, {}, "Region is missing"),
    ({"region": "eu"}, {"region": [b"us"]}, "Region differs from the argument 'region'"),
    ({"region": "eu"}, {"region": [b"EU"]}, "differs"),
    ({"region": "eu"}, {"region": [b"eu", b"eu"]}, "more than once"),
    ({"region": "eu"}, {"region": [b"=?base64?ZXU?="]}, "no valid Base64"),
    ({"region": "eu"}, {"region": [b"\xe9"]}, "characters"),
    ({}, {"region": [b"eu"]}, "is sent for an argument which is absent"),
    ({"region": None}, {"region": [b"null"]}, "absent"),
    ({"region": ["eu"]}, {"region": [b"eu"]}, "absent"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"43"]}, "differs from the argument 'limits.rows'"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"42.5"]}, "differs"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"4.2e1"]}, "differs"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"0x2a"]}, "differs"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"+42"]}, "differs"),
    ({"limits": {"rows": 42}}, {"x_rows": [b"4" * 5000]}, "differs"),
    ({"limits": {"rows": 1}}, {"x_rows": [b"true"]}, "differs"),
    ({"limits": {"rows": 2**53}}, {"x_rows": [b"9007199254740992"]}, "differs"),
    ({"limits": {"rows": 10**400}}, {"x_rows": [b"1"]}, "differs"),
    ({"limits": {"rows": float("nan")}}, {"x_rows": [b"NaN"]}, "differs"),
    ({"limits": {"properties": True}}, {"odd": [b"True"]}, "differs"),
    ({"limits": {"properties": True}}, {"odd": [b"1"]}, "differs"),
    ({"limits": {"properties": False}}, {}, "missing"),
]


def sent(values: dict[str, list[bytes]]) -> dict[bytes, list[bytes]]:
    return {b"mcp-param-" + k.replace("_", "-").encode(): v for k, v in values.items()}


@spec("2026/XH-06", "2026/XH-07", "2026/XH-09")
@rows(("arguments", "values"), MATCHING_PARAMS)
def test_parameter_headers_that_match_the_arguments_are_accepted(
    arguments: dict[str, Any], values: dict[str, list[bytes]]
) -> None:
    headers.check_params(PARAMS, arguments, sent(values))


@spec("2026/XH-02", "2026/XH-05")
@rows(("arguments", "values", "problem"), MISMATCHED_PARAMS)
def test_parameter_headers_that_differ_from_the_arguments_are_rejected(
    arguments: dict[str, Any], values: dict[str, list[bytes]], problem: str
) -> None:
    with pytest.raises(HeaderMismatch, match=problem):
        headers.check_params(PARAMS, arguments, sent(values))


SCALARS = st.text() | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans()


@spec("2026/XH-07")
@settings(max_examples=100, deadline=None)
@given(SCALARS)
def test_any_scalar_argument_matches_its_encoded_header(value: object) -> None:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    values = {b"mcp-param-region": [headers.encode_value(text).encode()]}
    headers.check_params(PARAMS[:1], {"region": value}, values)


@rows(
    ("pairs", "conflicting"),
    [
        ([(b"host", b"a"), (b"origin", b"b")], set()),
        ([(b"host", b"a"), (b"host", b"a")], set()),
        ([(b"host", b"a"), (b"host", b"b"), (b"origin", b"b")], {b"host"}),
    ],
)
def test_header_with_different_values_is_conflicting(
    pairs: list[tuple[bytes, bytes]], conflicting: set[bytes]
) -> None:
    assert headers.RequestHeaders.of(pairs).conflicting == conflicting


def test_lines_of_accept_are_one_list() -> None:
    request = headers.RequestHeaders.of([(b"accept", b"a/b"), (b"host", b"x"), (b"accept", b"c/d")])
    assert request.get(b"accept") == b"a/b, c/d"
