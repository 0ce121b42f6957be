"""Whether a handler may ask its client something is read from its code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Tool
from django_mcp.components.asking import may_ask
from django_mcp.components.tool import tool_component


def asks(frame: Frame) -> str:
    return str(frame.client.elicit("Sure?", {}))


async def asks_later(frame: Frame) -> str:
    async def inside() -> str:
        return (await frame.client.acreate_message("Hi", 10)).text

    return await inside()


def asks_by_a_helper(frame: Frame) -> str:
    return asks(frame)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def asks_itself(frame: Frame) -> str:
    return asks_itself(frame)


def says(frame: Frame) -> str:
    frame.client.log("info", "Nothing is asked here")
    return "done"


class Confirm(Tool):
    """Asks by a method of its own."""

    def execute(self, frame: Frame) -> str:
        return self._sure(frame)

    def _sure(self, frame: Frame) -> str:
        return str(frame.client.list_roots())


class TestAskingIsSeen:
    @pytest.mark.parametrize(
        "handler",
        [asks, asks_later, asks_by_a_helper, decorated(asks), functools.partial(asks)],
        ids=["call", "function inside", "helper", "decorator", "partial"],
    )
    def test_in_what_the_handler_calls_by_name(self, handler: Callable[..., Any]) -> None:
        assert may_ask(handler)

    def test_in_a_helper_which_is_written_below_the_handler(self) -> None:
        module: dict[str, Any] = {"tool_component": tool_component}
        exec(
            "component = tool_component(lambda frame: helper(frame), name='above')\n"
            "def helper(frame): return frame.client.elicit('Sure?', {})\n",
            module,
        )

        assert module["component"].asks

    def test_in_a_method_of_a_tool_class(self) -> None:
        assert tool_component(Confirm).asks

    @pytest.mark.parametrize("handler", [says, asks_itself, len])
    def test_and_not_where_there_is_none(self, handler: Callable[..., Any]) -> None:
        assert not may_ask(handler)

    def test_and_can_be_said_where_it_does_not_show(self) -> None:
        assert tool_component(says, asks=True).asks
        assert not tool_component(asks, asks=False).asks
