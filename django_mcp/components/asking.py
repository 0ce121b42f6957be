"""Whether a handler may ask its client something, read from its code.

A handler that asks by rounds runs more than once, so what it writes before its question has to
be undone. That has a price, which only those that ask should pay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

ASKING = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in ("ask", "elicit", "elicit_url", "create_message", "list_roots")
)
"""The methods of the client that ask."""

DEPTH = 4
"""How far functions are followed into functions which they call by a name of their module."""


def calls_client(function: Callable[..., Any], depth: int = DEPTH) -> bool:
    """Whether ``function``, or one that it calls by name or on ``self``, has an asking call in it.

    What it calls in other ways is not seen: such a handler says ``requests_input=True``.
    """
    inner = inspect.unwrap(getattr(function, "func", function))
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None or depth == 0:
        return False
    names = set(_names(code))
    if names & ASKING:
        return True
    called = [*_globals(inner, names), *_methods(function, names)]
    return any(calls_client(each, depth - 1) for each in called)


def _names(code: CodeType) -> Iterator[str]:
    """Every name in the code, and in the code of the functions written inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _globals(function: Any, names: set[str]) -> list[Callable[..., Any]]:
    known = getattr(function, "__globals__", {})
    return [known[name] for name in names if inspect.isfunction(known.get(name))]


def _methods(function: Any, names: set[str]) -> list[Callable[..., Any]]:
    owner = type(getattr(function, "__self__", None))
    found = [inspect.getattr_static(owner, name, None) for name in names]
    return [each for each in found if inspect.isfunction(each)]
