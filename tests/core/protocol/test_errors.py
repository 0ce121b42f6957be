"""Protocol errors: their codes in each revision, and their JSON-RPC objects."""

from __future__ import annotations

import pytest

from django_mcp import InvalidParams, McpError, ResourceNotFound, ToolError
from django_mcp.core.protocol.errors import ExecutionError, InternalError, TransportError
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST, REVISIONS, Revision
from tests.rows import rows
from tests.spec import spec

OLD, NEW = BY_VERSION["2025-11-25"], NEWEST

NAMED = [
    (McpError.parse_error(), -32700, -32700),
    (McpError.invalid_request(), -32600, -32600),
    (McpError.method_not_found(), -32601, -32601),
    (McpError.invalid_params(), -32602, -32602),
    (McpError.internal_error(), -32603, -32603),
    (McpError.header_mismatch(), -32600, -32020),
    (McpError.missing_required_client_capability({"roots": {}}), -32600, -32021),
    (McpError.unsupported_protocol_version("1", ["2"]), -32602, -32022),
    (McpError.resource("not_found"), -32002, -32602),
    (McpError.execution("No"), -32000, -32603),
    (McpError.transport("send_failure"), -32000, -32603),
]


@spec("2026/ERR-01")
@rows(("error", "old", "new"), NAMED)
def test_named_error_has_the_code_of_each_revision(error: McpError, old: int, new: int) -> None:
    assert (OLD.error_code(error), NEW.error_code(error)) == (old, new)


@spec("RPC-09")
@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.version)
def test_every_revision_has_a_code_for_every_named_error(revision: Revision) -> None:
    numbers = {revision.error_code(error) for error, _, _ in NAMED}

    assert numbers <= {*range(-32768, -31999)}


@spec("2026/ERR-04")
@rows("code", [-1, 0, 429, 1234, -40000, -32602])
def test_custom_error_code_is_kept(code: int) -> None:
    assert OLD.error_code(McpError(code=code)) == NEW.error_code(McpError(code=code)) == code


@spec("ELIC-20", "2026/ERR-01", "2026/ERR-02", "2026/ERR-03")
@rows("code", [-32000, -32002, -32019, -32020, -32022, -32042, -32099])
def test_custom_code_reserved_by_the_specification_is_replaced(code: int) -> None:
    assert NEW.error_code(McpError(code=code)) == -32603
    assert OLD.error_code(McpError(code=code)) == (-32603 if code == -32042 else code)


@rows(
    "reason",
    [
        "parse_error",
        "invalid_request",
        "method_not_found",
        "invalid_params",
        "internal_error",
        "header_mismatch",
        "missing_required_client_capability",
        "unsupported_protocol_version",
    ],
)
def test_protocol_error_is_created_by_its_name(reason: str) -> None:
    error = McpError.protocol(reason, "Words", data={"a": 1})

    assert (error.message, error.data) == ("Words", {"a": 1})


def test_unknown_protocol_error_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        McpError.protocol("not_enough_coffee")


def test_missing_capability_error_names_the_capability() -> None:
    error = McpError.missing_required_client_capability({"sampling": {"tools": {}}})

    assert error.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}
    assert "sampling.tools" in error.message


def test_unsupported_version_error_lists_the_supported_versions() -> None:
    error = McpError.unsupported_protocol_version("1999-01-01", ("2026-07-28",))

    assert error.data == {"supported": ["2026-07-28"], "requested": "1999-01-01"}


def test_transport_error_reason_becomes_a_readable_message() -> None:
    assert McpError.transport("request_timeout").message == "Request timeout"
    assert McpError.transport("The pipe broke", data=1).message == "The pipe broke"


def test_error_serializes_its_data_and_custom_code() -> None:
    error = McpError("Out of paper", data={"tray": 2}, code=1001)

    assert NEW.error(error) == {"code": 1001, "message": "Out of paper", "data": {"tray": 2}}


class TestWrap:
    def test_wrap_returns_an_mcp_error_unchanged(self) -> None:
        error = InvalidParams("No")

        assert McpError.wrap(error) is error

    @pytest.mark.parametrize("reason", ["Out of paper", ToolError("Out of paper")])
    def test_wrap_keeps_the_message_of_a_string_or_tool_error(self, reason: object) -> None:
        wrapped = McpError.wrap(reason)

        assert isinstance(wrapped, ExecutionError)
        assert wrapped.message == "Out of paper"

    def test_wrap_hides_the_message_of_other_exceptions(self) -> None:
        cause = ValueError("password=hunter2")
        wrapped = McpError.wrap(cause)

        assert isinstance(wrapped, InternalError)
        assert "hunter2" not in repr(NEW.error(wrapped))
        assert wrapped.__cause__ is cause

    def test_wrap_returns_internal_error_for_other_values(self) -> None:
        assert isinstance(McpError.wrap({"no": "exception"}), InternalError)


class TestJsonRpc:
    @spec("RPC-10", "2026/JR-06")
    def test_error_serializes_to_a_response_with_the_request_id(self) -> None:
        message = ResourceNotFound.at("a://b").to_json_rpc(7, OLD)

        assert message == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {"code": -32002, "message": "Resource not found", "data": {"uri": "a://b"}},
        }

    @spec("2026/JR-07")
    def test_error_response_without_a_known_id_has_no_id(self) -> None:
        assert "id" not in McpError.parse_error().to_json_rpc(None, NEW)

    def test_error_is_parsed_from_its_json_rpc_response(self) -> None:
        error = McpError.from_json_rpc(TransportError(data=[1]).to_json_rpc("a", OLD))

        assert (error.code, error.message, error.data) == (-32000, "Transport error", [1])
