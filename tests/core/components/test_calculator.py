"""The calculator of the seeds (002 and 003) as a class and, shorter, as functions."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from django_mcp.core.components import results
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.responses import Response, ToolResponse
from django_mcp.core.components.tool import Tool, tool_component
from django_mcp.core.protocol.errors import InvalidRequest
from django_mcp.frame import Frame

SCHEMA = {
    "type": "object",
    "properties": {
        "operation": {"type": "string", "enum": ["add", "subtract", "multiply", "divide"]},
        "a": {"type": "number"},
        "b": {"type": "number"},
    },
    "required": ["operation", "a", "b"],
}


class Calculator(Tool):
    def name(self) -> str:
        return "calculator"

    def description(self) -> str:
        return "Performs basic arithmetic operations"

    def input_schema(self) -> dict[str, Any]:
        return SCHEMA

    def execute(
        self, params: dict[str, Any], frame: Frame
    ) -> tuple[ToolResponse | InvalidRequest, Frame]:
        match params:
            case {"operation": "add", "a": a, "b": b}:
                result = a + b
                return Response.tool().text(str(result)), frame.assign("last_calculation", result)
            case {"operation": "divide", "b": 0}:
                return InvalidRequest("Cannot divide by zero"), frame
            case _:
                return Response.tool().error("Not implemented"), frame


def calculate(operation: Literal["add", "divide"], a: float, b: float) -> float:
    """Performs basic arithmetic operations"""
    return a + b if operation == "add" else a / b


def test_calculator_descriptor_uses_the_methods_of_the_class() -> None:
    assert tool_component(Calculator).descriptor() == {
        "name": "calculator",
        "description": "Performs basic arithmetic operations",
        "inputSchema": SCHEMA,
    }


def test_addition_returns_the_sum_and_assigns_the_last_calculation() -> None:
    tool = tool_component(Calculator)
    clean = tool.validate_input({"operation": "add", "a": 2, "b": 3})
    assert tool.invoke is not None
    value, frame = tool.invoke(clean, Frame())
    assert results.tool_result(tool, value) == {"content": [{"type": "text", "text": "5"}]}
    assert frame.assigns == {"last_calculation": 5}


def test_division_by_zero_returns_invalid_request_without_assigns() -> None:
    tool = tool_component(Calculator)
    assert tool.invoke is not None
    error, frame = tool.invoke({"operation": "divide", "a": 1, "b": 0}, Frame())
    assert isinstance(error, InvalidRequest)
    assert error.message == "Cannot divide by zero"
    assert frame.assigns == {}


def test_operation_outside_the_enum_is_rejected_by_the_input_schema() -> None:
    with pytest.raises(InvalidArguments, match="operation"):
        tool_component(Calculator).validate_input({"operation": "modulo", "a": 1, "b": 2})


def test_calculator_function_returns_text_and_structured_content() -> None:
    tool = tool_component(calculate, name="calculator")
    clean = tool.validate_input({"operation": "add", "a": 2, "b": 3})
    assert tool.invoke is not None
    assert results.tool_result(tool, tool.invoke(clean, None)) == {
        "content": [{"type": "text", "text": "5.0"}],
        "structuredContent": 5.0,
    }
    assert tool.descriptor()["description"] == "Performs basic arithmetic operations"
