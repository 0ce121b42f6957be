"""How large arguments may be: in the event loop, and where members are compared with each other.

Larger ones are validated in a thread, where only the first error of each list and object is
described (``schemas._Validation``). The size of a message is bounded where it is read
(``protocol.jsonrpc``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import NoneType
from typing import Any

from django_mcp.core.components.invalid_arguments import InvalidArguments

MAX_NODES = 500
"""JSON values, and pieces of 64 characters, which are validated in the event loop."""
MAX_WITH_CHOSEN_HASH = 500
"""Members of a list or an object that become a set or keys: if all have one hash, each is compared
with all others, for 25 ms in the case of UUIDs."""

_SHORT = frozenset({bool, int, float, NoneType})
"""Types of values of one node. ``issuperset`` looks at all values at the speed of C."""


def is_small(arguments: Mapping[str, Any]) -> bool:
    """Whether the event loop may validate the arguments; takes less than 1 µs for few of them."""
    values = arguments.values()
    if _SHORT.issuperset(map(type, values)):
        return len(values) <= MAX_NODES
    pending = [*values]
    size = len(pending)
    for value in pending:
        kind = type(value)
        if kind is str:
            size += len(value) >> 6
        elif kind is list:
            size += len(value)
            if size <= MAX_NODES:
                pending += value
        elif kind is dict:
            size += len(value)
            if size <= MAX_NODES:
                pending += value.values()
        if size > MAX_NODES:
            return False
    return True


def with_few_members(validate: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> Any:
    """``validate(arguments)``; raises InvalidArguments for too many members of one collection."""
    if _has_many_members(arguments):
        raise InvalidArguments(
            f"a list or an object may have at most {MAX_WITH_CHOSEN_HASH} members here"
        )
    return validate(arguments)


def _has_many_members(arguments: Mapping[str, Any]) -> bool:
    """Whether a list or an object has more members than may share one hash."""
    pending: list[Any] = [arguments]
    for value in pending:
        if type(value) is list:
            members: Collection[Any] = value
        elif type(value) is dict:
            members = value.values()
        else:
            continue
        if len(members) > MAX_WITH_CHOSEN_HASH:
            return True
        pending += members
    return False
