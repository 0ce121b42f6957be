"""The hooks of a Server, which may be synchronous or async, unless they say otherwise."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.signature import check_call
from django_mcp.core.protocol.texts import similar

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json

logger = logging.getLogger("django_mcp")

Function = TypeVar("Function", bound=Callable[..., Any])


HOOKS = (
    "start",
    "stop",
    "on_initialize",
    "init",
    "around_call",
    "handle_tool_call",
    "handle_resource_read",
    "handle_prompt_get",
    "handle_completion",
    "handle_notification",
    "handle_error",
)
"""The names of the hooks."""


class Hooks:
    """The hooks of a Server, with their default behaviour.

    ``@server.hook`` makes a function the hook of its name.
    """

    def __init__(self) -> None:
        self._hooked: set[str] = set()
        """The names of the hooks that the author defined."""
        self.plans: dict[Any, Any] = {}
        """Decisions of ``dispatch`` for the calls of this server:

        * (method, version): the first step of a request (``dispatcher.first_step``)
        * (kind, key, version): the ``Plan`` of a component (``dispatch.plan``)
        * (``TAIL``, method, version): the JSON after an encoded result (``dispatch.handle``)

        A change of anything that they depend on replaces the dict, so that an outdated decision is
        stored where nobody finds it.
        """

    def __init_subclass__(cls) -> None:
        """Raise ConfigurationError for a hook that is a method: there is one way to define it."""
        super().__init_subclass__()
        overridden = [name for name in HOOKS if name in vars(cls)]
        if overridden:
            raise ConfigurationError(
                f"{cls.__qualname__} overrides {', '.join(overridden)}: decorate functions of "
                "these names with the hook method of a Server instead"
            )

    def hook(self, function: Function) -> Function:
        """Use ``function`` as the hook of its name; raises ConfigurationError for another name."""
        name = getattr(function, "__name__", None)
        if not isinstance(name, str):  # Such as a functools.partial.
            raise ConfigurationError(
                f"{function!r} has no name: give a function with the name of its hook, such as "
                "def start()"
            )
        if name not in HOOKS:
            near = similar(name, HOOKS)
            question = f" Did you mean {near!r}?" if near else ""
            raise ConfigurationError(
                f"There is no hook {name!r}; the hooks are {', '.join(HOOKS)}.{question}"
            )
        if name == "around_call":
            _check_context_manager(function)
        _, *given = inspect.signature(getattr(Hooks, name)).parameters
        remedy = f"let its parameters be ({', '.join(given)})"
        # It is called on the thread that found the failure.
        must_be_sync = name == "handle_error"
        check_call(function, f"The hook {name}", *given, remedy=remedy, must_be_sync=must_be_sync)
        self._hooked.add(name)
        self.plans = {}
        setattr(self, name, function)  # The attribute of the instance hides the method.
        return function

    def has_hook(self, name: str) -> bool:
        return name in self._hooked

    def start(self) -> Any:
        """Called once in every serving process, before it answers its first message."""

    def stop(self) -> Any:
        """Called when such a process ends."""

    def on_initialize(self, client_info: Json, capabilities: Json, frame: Frame) -> Any:
        """Called when a client opens a session. Raise McpError to reject it.

        The session stores the assigns of a returned Frame.
        """

    def init(self, client_info: Json, frame: Frame) -> Any:
        """Called when a client reports that its session is ready, before its next request.

        It may return a Frame, with assigns or components of this session alone. An exception ends
        the session. Revisions without sessions do not call it.
        """

    def around_call(self, frame: Frame) -> AbstractContextManager[Any]:
        """Return a context manager around each handler, such as a change log's.

        It is entered in the thread of a synchronous handler, also in a task, and gets the handler's
        exceptions.
        """
        return nullcontext()

    def handle_tool_call(self, name: str, arguments: Json, frame: Frame) -> Any:
        """Called for a tool which was registered without a handler."""
        raise _without_handler("tool", name, "handle_tool_call")

    def handle_resource_read(self, uri: str, frame: Frame) -> Any:
        """Called for a resource or a template which was registered without a handler."""
        raise _without_handler("resource", uri, "handle_resource_read")

    def handle_prompt_get(self, name: str, arguments: Json, frame: Frame) -> Any:
        """Called for a prompt which was registered without a handler."""
        raise _without_handler("prompt", name, "handle_prompt_get")

    def handle_completion(self, ref: Json, argument: Mapping[str, str], frame: Frame) -> Any:
        """Called for suggestions when the argument has no completer of its own."""
        return ()

    def handle_notification(self, method: str, params: Json, frame: Frame) -> Any:
        """Called for a notification of a session that the framework does not handle.

        It may return a Frame. An exception is logged.
        """

    def handle_error(self, message: str, error: BaseException | None) -> None:
        """Called for a failure that no caller receives: of a transport, a hook, a keepalive.

        It is called on the thread which found the failure, so it must be synchronous and quick. The
        failure has been logged.
        """

    def report(self, message: str, error: BaseException | None = None) -> None:
        """Log a failure and call ``handle_error``; an exception in it is only logged."""
        logger.error(message, exc_info=error)
        try:
            self.handle_error(message, error)
        except Exception:
            logger.exception("handle_error failed")


def _check_context_manager(function: Callable[..., Any]) -> None:
    inner = inspect.unwrap(function)
    is_generator = inspect.isgeneratorfunction(inner)
    is_async = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    if is_async or (is_generator and inner is function):
        raise ConfigurationError(
            "around_call returns a context manager: write def, not async def, and "
            "@contextlib.contextmanager above it"
        )


def _without_handler(kind: str, key: str, hook: str) -> ConfigurationError:
    return ConfigurationError(
        f"The {kind} {key!r} was registered without a handler, and its server has no {hook}: "
        "define one of them"
    )
