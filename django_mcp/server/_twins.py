"""The two spellings of a public method: ``call_tool`` for sync code, ``acall_tool`` for async.

The method is written once, in a part of the Server, and returns a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

Part = TypeVar("Part")
P = ParamSpec("P")
T = TypeVar("T")


def twins(
    part: str,
    method: Callable[Concatenate[Part, P], Coroutine[Any, Any, T]],
    run: Callable[[Part, Callable[[], Coroutine[Any, Any, T]]], T],
) -> tuple[
    Callable[Concatenate[Any, P], T],
    Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
]:
    """Return the sync and the async method of a Server which delegate to its ``part``.

    ``run`` runs the coroutine for synchronous code. Both keep the signature; the docstring
    belongs to the synchronous one, and the other refers to it.
    """

    def synchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        owner = getattr(server, part)
        return run(owner, partial(method, owner, *args, **kwargs))

    async def asynchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(getattr(server, part), *args, **kwargs)

    update_wrapper(synchronous, method)
    update_wrapper(asynchronous, method)
    asynchronous.__name__ = f"a{method.__name__}"
    asynchronous.__doc__ = f"``{method.__name__}`` for asynchronous code."
    return synchronous, asynchronous
