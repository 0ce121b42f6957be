"""Server: its options, and the sync and async spelling of its methods."""

from __future__ import annotations

import inspect
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from django_mcp import ConfigurationError, Server
from django_mcp.core.server.in_process import InProcessCalls
from django_mcp.core.server.notifications import Notifications

TWINS = [
    name
    for part in (InProcessCalls, Notifications)
    for name in vars(part)
    if hasattr(Server, f"a{name}")
]


def test_server_has_both_spellings_of_every_method() -> None:
    assert len(TWINS) == 15


@pytest.mark.parametrize("name", TWINS)
def test_both_spellings_have_the_same_signature_and_a_docstring(name: str) -> None:
    synchronous, asynchronous = getattr(Server, name), getattr(Server, f"a{name}")

    assert inspect.iscoroutinefunction(asynchronous)
    assert not inspect.iscoroutinefunction(synchronous)
    assert str(inspect.signature(synchronous)) == str(inspect.signature(asynchronous))
    assert asynchronous.__name__ == f"a{name}"
    assert asynchronous.__doc__ == f"``{name}`` for asynchronous code."
    assert synchronous.__doc__


def test_unconfigured_server_signs_nothing_and_names_the_remedy() -> None:
    server = Server("shop")

    with pytest.raises(RuntimeError, match=r"registry\.configure"):
        server.sign("cursor", "test:1", "text")
    with pytest.raises(RuntimeError, match=r"registry\.configure"):
        server.unsign("cursor", "test:1", "text")


def test_object_of_a_class_is_made_once_for_each_server() -> None:
    class Notes(list[str]):
        pass

    class Marks(list[str]):
        pass

    shop = Server("shop")

    shop.state(Notes).append("open")

    assert shop.state(Notes) == ["open"]
    assert shop.state(Marks) == []
    assert Server("shop").state(Notes) == []


async def aexplain() -> str:
    return "Ask first."


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"middleware": [5]}, "give async functions"),
        ({"middleware": print}, "write a list"),
        ({"middleware": "shop.middleware"}, "write a list"),
        ({"authenticators": 5}, "write a list"),
        ({"view_middleware": 5}, "write a list of dotted paths"),
        ({"group_scopes": ["orders"]}, "write a dict of the scopes by group"),
        ({"capabilities": "tools"}, "write a dict"),
        ({"cache": 5}, "write a CacheHint"),
        ({"scopes": 5}, "write a list"),
        ({"instructions": aexplain}, "is async: write def"),
        ({"instructions": lambda frame: "Ask first."}, "takes arguments"),
    ],
)
def test_invalid_option_is_refused_with_a_remedy(options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        Server("shop", **options)


def test_hook_that_is_called_on_any_thread_is_not_async() -> None:
    async def handle_error(message: str, error: BaseException | None) -> None: ...

    with pytest.raises(ConfigurationError, match="handle_error is async: write def"):
        Server("shop").hook(handle_error)


def test_tools_that_threads_register_at_once_are_all_there() -> None:
    server = Server("shop")
    names = [f"tool_{number}" for number in range(400)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            deque(pool.map(server.register_tool, names), maxlen=0)
            assert {tool.name for tool in server.components.of_kind("tool")} == {*names}
            assert all(pool.map(server.unregister_tool, names))
    finally:
        sys.setswitchinterval(interval)
    assert not server.components.of_kind("tool")
