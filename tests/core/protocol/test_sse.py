"""Server-sent events: the parser reads what the writer writes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol import sse
from django_mcp.core.protocol.sse import Event, EventId, Parser
from tests.rows import rows
from tests.spec import spec

WRITTEN = [
    (sse.event(b'{"a":1}'), b'data: {"a":1}\n\n'),
    (sse.event('{"a":"é"}'), 'data: {"a":"é"}\n\n'.encode()),
    (sse.event(b"{}", id="s.1"), b"id: s.1\ndata: {}\n\n"),
    (sse.event(b"{}", id="s.1", retry=500), b"id: s.1\nretry: 500\ndata: {}\n\n"),
    (sse.event("/messages", event="endpoint"), b"event: endpoint\ndata: /messages\n\n"),
    (sse.event(b"a\nb\r\nc\rd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
    (sse.priming("s.0"), b"id: s.0\ndata:\n\n"),
    (sse.priming("s.0", retry=0), b"id: s.0\nretry: 0\ndata:\n\n"),
]


@spec("T-HTTP-5A")
@rows(("written", "expected"), WRITTEN)
def test_events_are_serialized_as_the_sse_standard_defines(written: bytes, expected: bytes) -> None:
    assert written == expected


@spec("T-HTTP-5A")
@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
@pytest.mark.parametrize("field", ["id", "event"])
def test_event_field_with_a_line_break_or_nul_is_rejected(field: str, bad: str) -> None:
    with pytest.raises(ValueError, match=f"The {field} of an event holds no NUL"):
        sse.event(b"{}", **{field: bad})  # type: ignore[arg-type]


def test_negative_retry_is_rejected() -> None:
    with pytest.raises(ValueError, match="milliseconds"):
        sse.event(b"{}", retry=-1)


READ = [
    ("lf", b"data: a\n\n", [Event(data="a")]),
    ("cr", b"data: a\r\r", [Event(data="a")]),
    ("crlf", b"data: a\r\n\r\n", [Event(data="a")]),
    ("byte order mark", b"\xef\xbb\xbfdata: a\n\n", [Event(data="a")]),
    ("only one byte order mark", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    ("several lines", b"data: a\ndata\ndata:b\n\n", [Event(data="a\n\nb")]),
    ("one space is dropped", b"data:  a\n\n", [Event(data=" a")]),
    ("comments", b": hi\ndata: a\n:\n\n", [Event(data="a")]),
    ("only comments", b":\n\n: keep-alive\n\n", []),
    ("unknown fields", b"colour: red\ndata: a\nfoo\n\n", [Event(data="a")]),
    ("named", b"event: endpoint\ndata: /x\n\n", [Event(data="/x", event="endpoint")]),
    ("priming", b"id: s.0\ndata:\n\n", [Event(data="", id="s.0")]),
    ("unfinished", b"data: a\n\ndata: b\n", [Event(data="a")]),
    (
        "id persists",
        b"id: 1\ndata: a\n\ndata: b\n\n",
        [Event(data="a", id="1"), Event(data="b", id="1")],
    ),
    ("id resets", b"id: 1\ndata: a\n\nid\ndata: b\n\n", [Event(data="a", id="1"), Event(data="b")]),
    ("id without data", b"id: 1\n\ndata: b\n\n", [Event(data="b", id="1")]),
    ("id with NUL", b"id: 1\nid: \x00\ndata: b\n\n", [Event(data="b", id="1")]),
    ("name does not persist", b"event: x\n\ndata: b\n\n", [Event(data="b")]),
    ("retry", b"retry: 10\ndata: a\n\ndata: b\n\n", [Event(data="a", retry=10), Event(data="b")]),
    ("bad retry", b"retry: 1.5\nretry: -1\nretry: \xd9\xa3\ndata: a\n\n", [Event(data="a")]),
    ("bad bytes", b"data: \xff\n\n", [Event(data="\ufffd")]),
]


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in READ], ids=[r[0] for r in READ])
def test_stream_is_parsed_equally_as_a_whole_and_byte_by_byte(
    stream: bytes, events: list[Event]
) -> None:
    assert Parser().feed(stream) == events
    parser = Parser()
    assert [e for i in range(len(stream)) for e in parser.feed(stream[i : i + 1])] == events


def test_carriage_return_ends_a_line_without_the_next_byte() -> None:
    parser = Parser()
    assert parser.feed(b"data: a\r\n\r") == [Event(data="a")]
    assert parser.feed(b"") == []
    assert parser.feed(b"\ndata: b\r\r") == [Event(data="b")]


def test_parser_keeps_last_id_and_retry_for_reconnection() -> None:
    parser = Parser()
    parser.feed(sse.priming("s.4", retry=250))
    parser.feed(b"id: s.5\n\n")
    assert (parser.id, parser.retry) == ("s.5", 250)


@spec("T-HTTP-55")
def test_event_id_contains_stream_and_sequence_number() -> None:
    assert str(EventId("a.b-c_d~", 12)) == "a.b-c_d~.12"
    assert EventId.parse("a.b-c_d~.12") == EventId("a.b-c_d~", 12)


BAD_IDS = [
    "", ".", "a", "a.", ".1", "a.-1", "a.+1", "a.01", "a.1.", "a.1 ", " a.1", "a b.1", "a\n.1",
    "a.1\n", "a\0.1", "é.1", "a.१", "a.9223372036854775808", "a." + "9" * 5000, "x" * 2201 + ".1",
]  # fmt: skip


@rows("text", BAD_IDS)
def test_malformed_event_id_parses_to_none(text: str) -> None:
    assert EventId.parse(text) is None


@rows(("stream", "sequence"), [("", 1), ("a b", 1), ("a\n", 1), ("é", 1), ("a", -1), ("a", 2**63)])
def test_event_id_with_an_invalid_stream_or_sequence_is_rejected(
    stream: str, sequence: int
) -> None:
    with pytest.raises(ValueError, match="stream|sequence"):
        EventId(stream, sequence)


TOKENS = st.from_regex(r"[A-Za-z0-9_~.-]{1,30}", fullmatch=True)
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))


@settings(max_examples=100, deadline=None)
@given(TOKENS, st.integers(0, 2**63 - 1))
def test_any_event_id_survives_a_round_trip(stream: str, sequence: int) -> None:
    made = EventId(stream, sequence)
    assert EventId.parse(str(made)) == made


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_parses_to_an_equal_event_id_or_none(text: str) -> None:
    found = EventId.parse(text)
    assert found is None or str(found) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(LINES, min_size=1), min_size=1), st.integers(1, 9))
def test_serialized_events_are_parsed_back_from_chunks_of_any_size(
    texts: list[list[str]], size: int
) -> None:
    datas = ["\n".join(lines) for lines in texts]
    stream = b"".join(sse.event(data, id=f"s.{i}") + sse.KEEP_ALIVE for i, data in enumerate(datas))
    parser = Parser()
    events = [e for i in range(0, len(stream), size) for e in parser.feed(stream[i : i + size])]
    assert [(e.data, e.id) for e in events] == [(d, f"s.{i}") for i, d in enumerate(datas)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary()))
def test_any_bytes_are_parsed_equally_as_a_whole_and_in_chunks(chunks: list[bytes]) -> None:
    whole, parts = Parser(), Parser()
    expected = whole.feed(b"".join(chunks))
    assert [event for chunk in chunks for event in parts.feed(chunk)] == expected
