"""Whether an exception of a handler is an expected failure, by its type, or a defect.

An expected failure is answered in words for the caller, and is not logged as an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from hashlib import sha256
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from django_mcp.core.components.base import ConfigurationError, InvalidOutput, UnserializableResult
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import (
    ExecutionError,
    InvalidParams,
    McpError,
    ResourceNotFound,
    ToolError,
)

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

logger = logging.getLogger("django_mcp")

Reason = Literal["not_found", "permission_denied", "invalid", "failed"]
Message = str | Callable[[Any], Any] | None


class Failure(NamedTuple):
    """How exceptions of one type are answered."""

    reason: Reason
    message: Message = None
    """The words for the caller, or a function of the exception; None: the exception as a string."""

    def describe(self, error: Exception) -> str:
        given = error if self.message is None else self.message
        words = str(given(error) if callable(given) else given)
        return words or DEFAULT_WORDS[self.reason]


DEFAULT_WORDS: Mapping[Reason, str] = {
    "not_found": "Not found",
    "permission_denied": "Permission denied",
    "invalid": "The values are invalid",
    "failed": "The operation failed",
}

BUILT_IN: Port[Mapping[type[Exception] | str, Failure]] = Port(
    "has the failures of Django's exceptions", default={}
)
"""The failures of this package, by class, or by the full name of one that may not be installed."""
_registered: dict[type[Exception], Failure] = {}


def register_exception(
    kind: type[Exception], reason: Reason = "failed", message: Message = None
) -> None:
    """Answer an exception of a handler, of the class ``kind`` or a subclass, as expected.

    A tool returns an error with the message to the model; a resource or a prompt is answered with a
    protocol error, or with "not_found" does not exist. Nothing is logged. ``message`` is a text or
    a function of the exception; None sends ``str(exception)``, which must be safe to show.
    """
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise ConfigurationError(f"register_exception takes a class of exceptions, not {kind!r}")
    if reason not in get_args(Reason):
        reasons = ", ".join(map(repr, get_args(Reason)))
        raise ConfigurationError(f"register_exception knows no reason {reason!r}: it has {reasons}")
    _registered[kind] = Failure(reason, message)


def unregister_exception(kind: type[Exception]) -> None:
    """Undo ``register_exception``; nothing happens if ``kind`` was not registered."""
    _registered.pop(kind, None)


def find(kind: type[BaseException]) -> Failure | None:
    """Return the entry of the nearest base of ``kind`` that has one, or None."""
    built_in = BUILT_IN.get()
    for base in kind.__mro__:
        if issubclass(base, Exception) and base in _registered:
            return _registered[base]
        name = f"{base.__module__}.{base.__qualname__}"
        failure = built_in.get(base) or built_in.get(name)
        if failure is not None:
            return failure
    return None


OWN = (
    ToolError, McpError, InvalidArguments, InvalidOutput, UnserializableResult, ConfigurationError,
)  # fmt: skip
"""Exceptions of this package, which keep their meaning whatever is registered for their bases."""


def expected(error: BaseException, frame: Frame) -> Exception | None:
    """Return the error that is sent instead of an expected exception; None for any other."""
    if not isinstance(error, Exception) or isinstance(error, OWN):
        return None
    if (failure := find(type(error))) is None:
        return None
    if frame.message.method == "tools/call":
        return ToolError(failure.describe(error) + debug_details(frame, error))
    if failure.reason == "not_found" and frame.message.method == "resources/read":
        return ResourceNotFound()
    return PROTOCOL_ERRORS[failure.reason](failure.describe(error) + debug_details(frame, error))


PROTOCOL_ERRORS: Mapping[Reason, type[InvalidParams | ExecutionError]] = {
    "not_found": InvalidParams,
    "permission_denied": ExecutionError,
    "invalid": InvalidParams,
    "failed": ExecutionError,
}
"""The errors of prompts, resources and completions."""


def debug_details(frame: Frame, error: BaseException) -> str:
    """Return the exception in words where the site runs under DEBUG, else an empty string."""
    if not frame.server.options.debug:
        return ""
    return f" (DEBUG: {type(error).__name__}: {_message_of(error)})"


def _message_of(error: BaseException) -> str:
    """Return the message of an exception, whose own method may fail."""
    try:
        return str(error)
    except Exception:
        return "(it has no text)"


class Observers(list[Callable[["Frame", BaseException], None]]):
    """Told of each unexpected exception of a handler of a server. The test client raises it."""


def report_unexpected(frame: Frame, error: BaseException, message: str, *args: object) -> None:
    """Log an exception that a handler should not have raised, with its traceback."""
    logger.error(message, *args, exc_info=error)
    observe_unexpected(frame, error)


def observe_unexpected(frame: Frame, error: BaseException) -> None:
    if not frame.exchange.has_ended:
        frame.exchange.exception = summarised(error)
    for observe in frame.server.state(Observers):
        observe(frame, error)


PACKAGE = __name__.partition(".")[0]
MAX_SUMMARY = 500
"""Characters."""


def summarised(error: BaseException) -> tuple[str, str]:
    """Return an exception in a line, with the last line of the site's code, and a fingerprint.

    The fingerprint groups exceptions of one class that were raised at one place, whatever their
    messages are. It changes with the names of functions, and not with numbers of lines.
    """
    places = [
        (frame.f_globals.get("__name__", ""), frame.f_code.co_qualname, number)
        for frame, number in walk_tb(error.__traceback__)
    ]
    outside = [place for place in places if place[0].partition(".")[0] != PACKAGE]
    module, function, line = (outside or places or [("", "", 0)])[-1]
    kind = type(error).__qualname__
    text = f"{kind}: {_message_of(error)} ({module}.{function}, line {line})"
    identity = "\n".join([kind, *(f"{module}.{function}" for module, function, _ in outside)])
    return text[:MAX_SUMMARY], sha256(identity.encode()).hexdigest()[:FINGERPRINT]


FINGERPRINT = 12
"""Characters of hexadecimal."""
