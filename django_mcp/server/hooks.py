"""What a Server leaves to its author: methods to override, or functions to give instead.

Each may be synchronous or async, unless it says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from django_mcp.components.base import ConfigurationError

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.errors import Json

logger = logging.getLogger("django_mcp")

Function = TypeVar("Function", bound=Callable[..., Any])


class HookOptions(TypedDict, total=False):
    """The hooks, as keywords of a Server."""

    start: Callable[[], Any]
    stop: Callable[[], Any]
    on_initialize: Callable[..., Any]
    init: Callable[..., Any]
    handle_tool_call: Callable[..., Any]
    handle_resource_read: Callable[..., Any]
    handle_prompt_get: Callable[..., Any]
    handle_completion: Callable[..., Any]
    handle_notification: Callable[..., Any]
    handle_error: Callable[[str, BaseException | None], None]


class Hooks:
    """The part of a Server which its author fills in.

    A hook is overridden in a subclass, given by keyword, or decorated with ``@server.hook``.
    """

    def hook(self, function: Function) -> Function:
        """Let ``function`` be the hook of its name; raises ConfigurationError for another name."""
        self._hook(function.__name__, function)
        return function

    def has_hook(self, name: str) -> bool:
        """Whether somebody filled this hook in."""
        return name in vars(self) or getattr(type(self), name) is not getattr(Hooks, name)

    def _hook(self, name: str, function: Callable[..., Any]) -> None:
        if name not in HOOKS:
            raise ConfigurationError(f"There is no hook {name!r}: there are {', '.join(HOOKS)}")
        # On the instance, where it hides the method.
        setattr(self, name, function)

    # The life of a process.

    def start(self) -> Any:
        """Called once in every process that serves, before its first message is answered."""

    def stop(self) -> Any:
        """Called when such a process ends."""

    # The life of a session.

    def on_initialize(self, client_info: Json, capabilities: Json, frame: Frame) -> Any:
        """Called when a client opens a session. Raise McpError to refuse it.

        What a returned Frame remembers is the session's from the beginning.
        """

    def init(self, client_info: Json, frame: Frame) -> Any:
        """Called once when a client says that its session is ready, before it is answered again.

        It may return a Frame, with assigns or components of this session alone. An exception
        ends the session. Where the revision has no sessions it is never called.
        """

    # Components without a handler of their own, and what else a client may say.

    def handle_tool_call(self, name: str, arguments: Json, frame: Frame) -> Any:
        """Called for a tool which was registered without a handler."""
        raise _unhandled("tool", name, "handle_tool_call")

    def handle_resource_read(self, uri: str, frame: Frame) -> Any:
        """Called for a resource or a template which was registered without a handler."""
        raise _unhandled("resource", uri, "handle_resource_read")

    def handle_prompt_get(self, name: str, arguments: Json, frame: Frame) -> Any:
        """Called for a prompt which was registered without a handler."""
        raise _unhandled("prompt", name, "handle_prompt_get")

    def handle_completion(self, ref: Json, argument: Mapping[str, str], frame: Frame) -> Any:
        """Called to suggest values for an argument that nothing else completes."""
        return ()

    def handle_notification(self, method: str, params: Json, frame: Frame) -> Any:
        """Called for a notification in a session which the framework does not act upon itself.

        It may return a Frame. Notifications are never answered: an exception is logged.
        """

    # Failures.

    def handle_error(self, message: str, error: BaseException | None) -> None:
        """Told of a failure that no caller hears of: of a transport, a hook, a keepalive.

        It is not async, it is called on the thread where the failure was found, and it must be
        quick. The failure has been logged already.
        """

    def report(self, message: str, error: BaseException | None = None) -> None:
        """Log a failure and tell ``handle_error``, whose own failure is only logged."""
        logger.error(message, exc_info=error)
        try:
            self.handle_error(message, error)
        except Exception:
            logger.exception("handle_error failed")


HOOKS: tuple[str, ...] = tuple(HookOptions.__annotations__)


def _unhandled(kind: str, key: str, hook: str) -> ConfigurationError:
    return ConfigurationError(
        f"The {kind} {key!r} was registered without a handler, and its server has no {hook}: "
        "give one or the other"
    )
