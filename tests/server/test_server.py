"""Server: its options, and the sync and async spelling of its methods."""

from __future__ import annotations

import inspect

import pytest

from django_mcp import ConfigurationError, Server
from django_mcp.server.in_process import InProcessCalls
from django_mcp.server.notifications import Notifications
from django_mcp.server.server import RENAMED

TWINS = [
    name
    for part in (InProcessCalls, Notifications)
    for name in vars(part)
    if hasattr(Server, f"a{name}")
]


@pytest.mark.parametrize(("former", "current"), RENAMED.items())
def test_renamed_server_option_is_rejected_with_its_new_name(former: str, current: str) -> None:
    assert current in inspect.signature(Server).parameters

    with pytest.raises(TypeError, match=f"'{former}' is now '{current}'"):
        Server("shop", **{former: True})  # type: ignore[arg-type]


def test_renamed_component_option_is_rejected_with_its_new_name() -> None:
    with pytest.raises(ConfigurationError, match="'asks' is now 'requests_input'"):
        Server("shop").register_tool("buy", len, asks=True)


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
