"""The limits of what a client may send, and of what errors repeat of it."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.core.protocol import initialize, jsonrpc, limits, subscriptions
from django_mcp.core.protocol.errors import InvalidParams, InvalidRequest, McpError
from tests.rows import rows

LONGEST = "x" * limits.MAX_IDENTIFIER


def request(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **members}


@rows(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 5000, None),
        *((text, None) for text in ("", "²", "\u0663", "-1", "+1", " 1", "1_0", "1.0")),
    ],
)
def test_number_has_a_few_digits_of_ascii(text: str, number: int | None) -> None:
    assert limits.natural(text) == number


def test_identifiers_of_the_greatest_length_are_accepted() -> None:
    assert jsonrpc.read(request(id=LONGEST, method=LONGEST)) == (LONGEST, LONGEST, {})


@rows("name", ["id", "method"])
def test_longer_identifier_is_rejected_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f'"{name}" may have at most 256 characters'):
        jsonrpc.read(request(**{name: LONGEST + "x"}))


def test_response_may_have_a_longer_id_which_the_server_has_signed() -> None:
    response = {"jsonrpc": "2.0", "id": "x" * limits.MAX_CURSOR, "result": {}}
    assert jsonrpc.read(response).id == response["id"]  # type: ignore[union-attr]
    with pytest.raises(InvalidRequest):
        jsonrpc.read({**response, "id": "x" * (limits.MAX_CURSOR + 1)})


@rows("name", ["clientInfo", "capabilities", "_meta"])
def test_initialize_with_too_much_about_the_client_is_rejected(name: str) -> None:
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "shop", "version": "1"},
        "capabilities": {},
    }
    assert initialize.read(params).version == "2025-11-25"
    large = {**params.get(name, {}), "large": [[]] * limits.MAX_CLIENT}
    with pytest.raises(InvalidParams, match="clientInfo and capabilities and _meta .* 16384 bytes"):
        initialize.read({**params, name: large})


def test_filter_with_a_longer_uri_is_rejected() -> None:
    uri = "x" * (limits.MAX_URI + 1)
    with pytest.raises(InvalidParams, match="2048"):
        subscriptions.read({"notifications": {"resourceSubscriptions": [uri]}})


def test_error_repeats_at_most_a_hundred_characters() -> None:
    error = McpError.unsupported_protocol_version("9" * 1000, ["2026-07-28"])
    assert error.data["requested"] == "9" * limits.MAX_QUOTED + "..."
    assert limits.cut("short") == "short"
    assert limits.quoted("two\nlines") == r"'two\nlines'"
    assert limits.quoted("9" * 1000) == f"'{'9' * limits.MAX_QUOTED}'..."
