"""What can go wrong: by name, with its number in each revision, and as it travels."""

from __future__ import annotations

import pytest

from django_mcp import InvalidParams, McpError, ResourceNotFound, ToolError
from django_mcp.protocol.errors import ExecutionError, InternalError, TransportError
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, REVISIONS, Revision

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


@pytest.mark.parametrize(("error", "old", "new"), NAMED)
def test_each_named_error_has_its_number_in_each_era(error: McpError, old: int, new: int) -> None:
    assert (OLD.error_code(error), NEW.error_code(error)) == (old, new)


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.version)
def test_every_revision_has_a_number_for_every_named_error(revision: Revision) -> None:
    numbers = {revision.error_code(error) for error, _, _ in NAMED}

    assert numbers <= {*range(-32768, -31999)}


@pytest.mark.parametrize("code", [-1, 0, 429, 1234, -40000, -32602])
def test_a_number_of_ones_own_is_kept(code: int) -> None:
    assert OLD.error_code(McpError(code=code)) == NEW.error_code(McpError(code=code)) == code


@pytest.mark.parametrize("code", [-32000, -32002, -32019, -32020, -32022, -32042, -32099])
def test_what_belongs_to_the_specification_cannot_be_ones_own(code: int) -> None:
    assert NEW.error_code(McpError(code=code)) == -32603
    assert OLD.error_code(McpError(code=code)) == (-32603 if code == -32042 else code)


@pytest.mark.parametrize(
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
def test_the_errors_of_the_protocol_are_made_by_their_names(reason: str) -> None:
    error = McpError.protocol(reason, "Words", data={"a": 1})

    assert (error.message, error.data) == ("Words", {"a": 1})


def test_a_protocol_error_of_another_name_does_not_exist() -> None:
    with pytest.raises(KeyError):
        McpError.protocol("not_enough_coffee")


def test_a_missing_capability_is_named_in_the_data() -> None:
    error = McpError.missing_required_client_capability({"sampling": {"tools": {}}})

    assert error.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}
    assert "sampling.tools" in error.message


def test_an_unsupported_version_is_told_with_those_that_are_supported() -> None:
    error = McpError.unsupported_protocol_version("1999-01-01", ("2026-07-28",))

    assert error.data == {"supported": ["2026-07-28"], "requested": "1999-01-01"}


def test_a_reason_of_the_transport_is_told_in_words() -> None:
    assert McpError.transport("request_timeout").message == "Request timeout"
    assert McpError.transport("The pipe broke", data=1).message == "The pipe broke"


def test_an_error_keeps_its_data_and_may_have_a_number_of_its_own() -> None:
    error = McpError("Out of paper", data={"tray": 2}, code=1001)

    assert NEW.error(error) == {"code": 1001, "message": "Out of paper", "data": {"tray": 2}}


class TestWrapping:
    def test_an_error_stays_as_it_is(self) -> None:
        error = InvalidParams("No")

        assert McpError.wrap(error) is error

    @pytest.mark.parametrize("reason", ["Out of paper", ToolError("Out of paper")])
    def test_what_is_meant_to_be_read_is_told(self, reason: object) -> None:
        wrapped = McpError.wrap(reason)

        assert isinstance(wrapped, ExecutionError)
        assert wrapped.message == "Out of paper"

    def test_any_other_exception_is_told_blandly_and_kept_as_the_cause(self) -> None:
        cause = ValueError("password=hunter2")
        wrapped = McpError.wrap(cause)

        assert isinstance(wrapped, InternalError)
        assert "hunter2" not in repr(NEW.error(wrapped))
        assert wrapped.__cause__ is cause

    def test_anything_else_is_an_internal_error(self) -> None:
        assert isinstance(McpError.wrap({"no": "exception"}), InternalError)


class TestAsItTravels:
    def test_it_is_a_response_with_the_id_of_the_request(self) -> None:
        message = ResourceNotFound.at("a://b").to_json_rpc(7, OLD)

        assert message == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {"code": -32002, "message": "Resource not found", "data": {"uri": "a://b"}},
        }

    def test_an_unknown_id_is_left_out_and_none_is_invented(self) -> None:
        assert "id" not in McpError.parse_error().to_json_rpc(None, NEW)

    def test_it_is_read_back(self) -> None:
        error = McpError.from_json_rpc(TransportError(data=[1]).to_json_rpc("a", OLD))

        assert (error.code, error.message, error.data) == (-32000, "Transport error", [1])
