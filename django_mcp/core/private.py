"""What the core uses of Python and pydantic that they do not document for others.

It is used here, and in ``runtime.private``, which has what asgiref and Django do not document;
``scripts/structure.py`` finds it anywhere else. Where a name is gone, something public takes its
place, which does the same and takes longer. ``tests/core/test_private.py`` runs both, and names
what is gone with a new release.

Tried with Python 3.11 to 3.14, and with pydantic-core 2.46 to 2.50.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from pydantic_core import SchemaValidator

# Running the callbacks of an event loop on another thread than its own.

set_running_loop: Callable[[Any], None] = getattr(asyncio, "_set_running_loop", None)  # type: ignore[assignment]
enter_task: Callable[[Any, Any], None] = getattr(asyncio.tasks, "_enter_task", None)  # type: ignore[assignment]
leave_task: Callable[[Any, Any], None] = getattr(asyncio.tasks, "_leave_task", None)  # type: ignore[assignment]
run_handle: Callable[[asyncio.Handle], None] = getattr(asyncio.Handle, "_run", None)  # type: ignore[assignment]

CAN_LEND_LOOPS = None not in (set_running_loop, enter_task, leave_task, run_handle)
"""Without them, a loop runs all callbacks on its own thread, and others wait for it."""


def generator_hooks(loop: asyncio.AbstractEventLoop) -> tuple[Any, Any]:
    """The hooks of a loop for asynchronous generators, for ``sys.set_asyncgen_hooks``.

    Without them, a generator that is abandoned on another thread is not closed.
    """
    first = getattr(loop, "_asyncgen_firstiter_hook", None)
    return first, getattr(loop, "_asyncgen_finalizer_hook", None)


def new_validator(core: Any) -> SchemaValidator:
    """Return a validator that uses none of those which the models in the core schema have.

    Without ``_use_prebuilt``, the models in it are validated by their own: what ``argument_types``
    adds to a core schema is lost inside of them.
    """
    try:
        return SchemaValidator(core, _use_prebuilt=False)
    except TypeError:
        return SchemaValidator(core)


CACHED_FUNCTION = type(functools.lru_cache(lambda: None))
"""The type of what ``functools.cache`` returns."""
