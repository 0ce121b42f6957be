"""The option ``requests_input``, and the handler of a component."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Tool
from django_mcp.core.components.declaration import completer
from django_mcp.core.components.prompt import prompt_component
from django_mcp.core.components.resource import resource_component
from django_mcp.core.components.tool import tool_component


def requests_confirmation(frame: Frame) -> str:
    return str(frame.client.elicit("Sure?", {}))


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def only_logs(frame: Frame) -> str:
    frame.client.log("info", "No input is requested here")
    return "done"


def resource_of(function: Callable[..., Any], **options: Any) -> Any:
    return resource_component(function, "shop://hours", **options)


class Confirm(Tool):
    """Requests input in another method."""

    def execute(self, frame: Frame) -> str:
        return self._sure(frame)

    def _sure(self, frame: Frame) -> str:
        return str(frame.client.list_roots())


class TestRequestsInputOption:
    @pytest.mark.parametrize("component", [tool_component, prompt_component, resource_of])
    def test_requests_input_is_false_unless_declared(self, component: Callable[..., Any]) -> None:
        assert component(requests_confirmation).requests_input is False
        assert component(only_logs, requests_input=True).requests_input is True

    def test_requests_input_is_declared_as_a_class_attribute(self) -> None:
        class Sure(Confirm):
            requests_input = True

        assert tool_component(Sure).requests_input is True
        assert tool_component(Sure, requests_input=False).requests_input is False

    def test_completer_never_requests_input(self) -> None:
        assert completer(lambda value: []).requests_input is False


def test_handler_of_a_component_is_the_registered_function() -> None:
    wrapper = decorated(only_logs)
    assert tool_component(only_logs).handler is only_logs
    assert tool_component(wrapper).handler is wrapper
    assert tool_component(Confirm).handler.__func__ is Confirm.execute  # type: ignore[union-attr]
