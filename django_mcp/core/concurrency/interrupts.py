"""The exceptions that control Python itself, when the code of somebody else raises them.

A future cannot hold a StopIteration: whoever waits for it would wait for ever. A GeneratorExit in a
future closes every coroutine that waits for it. An event loop ends with a KeyboardInterrupt or a
SystemExit, and with it the calls of all others.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

CONTROL = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)


def without_control_exceptions(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``; raise RuntimeError for an exception that would end the event loop."""
    try:
        return function(*args, **kwargs)
    except CONTROL as error:
        if is_interrupted_by_user(error):
            raise
        raise RuntimeError(f"{function!r} raised {type(error).__name__}") from error


def is_interrupted_by_user(error: BaseException) -> bool:
    """Whether ``error`` may be the Ctrl-C of a user, and not an error of the code.

    Python raises it in its main thread, unless SIGINT has a handler of its own. ``asyncio.run`` and
    ASGI servers have one, which ends them in order.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
