"""Detection of handlers that send input requests, from their code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Tool
from django_mcp.components.asking import calls_client
from django_mcp.components.tool import tool_component


def asks(frame: Frame) -> str:
    return str(frame.client.elicit("Sure?", {}))


async def requests_input_in_nested_function(frame: Frame) -> str:
    async def inside() -> str:
        return (await frame.client.acreate_message("Hi", 10)).text

    return await inside()


def requests_input_through_helper(frame: Frame) -> str:
    return asks(frame)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def calls_itself(frame: Frame) -> str:
    return calls_itself(frame)


def only_logs(frame: Frame) -> str:
    frame.client.log("info", "Nothing is asked here")
    return "done"


class Confirm(Tool):
    """Sends an input request in a method of its own."""

    def execute(self, frame: Frame) -> str:
        return self._sure(frame)

    def _sure(self, frame: Frame) -> str:
        return str(frame.client.list_roots())


class TestInputRequestDetection:
    @pytest.mark.parametrize(
        "handler",
        [
            asks,
            requests_input_in_nested_function,
            requests_input_through_helper,
            decorated(asks),
            functools.partial(asks),
        ],
        ids=["call", "function inside", "helper", "decorator", "partial"],
    )
    def test_input_request_in_a_called_function_is_detected(
        self, handler: Callable[..., Any]
    ) -> None:
        assert calls_client(handler)

    def test_input_request_in_a_helper_defined_later_is_detected(self) -> None:
        module: dict[str, Any] = {"tool_component": tool_component}
        exec(
            "component = tool_component(lambda frame: helper(frame), name='above')\n"
            "def helper(frame): return frame.client.elicit('Sure?', {})\n",
            module,
        )

        assert module["component"].requests_input

    def test_input_request_in_a_method_of_a_tool_class_is_detected(self) -> None:
        assert tool_component(Confirm).requests_input

    @pytest.mark.parametrize("handler", [only_logs, calls_itself, len])
    def test_handler_without_input_request_is_not_detected(
        self, handler: Callable[..., Any]
    ) -> None:
        assert not calls_client(handler)

    def test_declaration_overrides_detection_of_input_requests(self) -> None:
        assert tool_component(only_logs, requests_input=True).requests_input
        assert not tool_component(asks, requests_input=False).requests_input
