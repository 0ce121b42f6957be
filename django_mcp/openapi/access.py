"""The permission of a tool with several operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_mcp.core.frame.frame import Frame


class AnyAccess:
    """The permission of a tool with several operations: one of theirs is enough."""

    is_of_caller = True

    def __init__(self, permissions: Sequence[Callable[[Frame], bool]]) -> None:
        self._permissions = permissions
        self.__qualname__ = "check_permissions"

    @property
    def admits_anonymous(self) -> bool:
        """Whether one of the operations lets in callers without credentials."""
        return any(getattr(each, "admits_anonymous", False) for each in self._permissions)

    def __call__(self, frame: Frame) -> bool:
        return any(permission(frame) for permission in self._permissions)
