"""The two spellings of a public method: ``call_tool`` for sync code, ``acall_tool`` for async."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Twins:
    """Derives both spellings from a coroutine method of the server's attribute ``part``.

    ``run`` is the method of the part which runs the coroutine for synchronous code.
    """

    def __init__(self, part: str, run: Callable[[Any, Callable[[], Any]], Any]) -> None:
        self._part = part
        self._run = run

    def of(
        self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
    ) -> tuple[
        Callable[Concatenate[Any, P], T], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
    ]:
        """Return the sync and the async method; the docstring of the second names the first."""
        name = self._part
        run = self._run

        def synchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
            part = getattr(server, name)
            result: T = run(part, partial(method, part, *args, **kwargs))
            return result

        async def asynchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await method(getattr(server, name), *args, **kwargs)

        update_wrapper(synchronous, method)
        update_wrapper(asynchronous, method)
        asynchronous.__name__ = f"a{method.__name__}"
        asynchronous.__doc__ = f"``{method.__name__}`` for asynchronous code."
        return synchronous, asynchronous
