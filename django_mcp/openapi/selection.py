"""The operations of an API that become tools: an author chooses them by name, id or pattern."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.texts import did_you_mean


class Named(NamedTuple):
    """An operation that may be chosen."""

    names: Sequence[str]
    """The name of its tool, and others that a pattern may fit."""
    label: str
    """In messages."""
    is_left_out: bool
    """Whether it writes, where the author has not chosen any that write."""
    operation: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The choice of operations of an API, by ``include`` and ``exclude``."""

    include: Sequence[str]
    exclude: Sequence[str]

    def check(self, **others: Any) -> None:
        """Raise ConfigurationError for a string where a list of names is needed."""
        lists = {"include": self.include, "exclude": self.exclude, **others}
        for name, values in lists.items():
            if isinstance(values, str | type) or callable(values):
                raise ConfigurationError(f"{name} is {values!r}: give a list")

    def chosen(
        self, operations: Iterable[Named], *, options: Iterable[str], remedy: str
    ) -> Iterator[Named]:
        """Yield the chosen operations; then raise ConfigurationError for names that have none.

        ``options`` are further names and patterns that the author gives, and ``remedy`` says how
        two operations get different names.
        """
        by_name: dict[str, Named] = {}
        repeated = []
        for operation in operations:
            is_included = not self.include or any(fits(each, operation) for each in self.include)
            is_excluded = any(fits(each, operation) for each in self.exclude)
            if is_included and not (is_excluded or operation.is_left_out):
                if operation.names[0] in by_name:
                    repeated.append(operation.label)
                else:
                    yield operation
            by_name.setdefault(operation.names[0], operation)
        if repeated:
            raise ConfigurationError(
                f"several operations have these names: {', '.join(repeated)}. {remedy}"
            )
        for pattern in (*self.include, *options):
            check_name(pattern, by_name, needs_tool=True)
        for pattern in self.exclude:
            check_name(pattern, by_name, needs_tool=False)


def fits(pattern: str, operation: Named) -> bool:
    """Whether a pattern fits one of the names of an operation."""
    return any(fnmatchcase(name, pattern) for name in operation.names)


def check_name(pattern: str, by_name: Mapping[str, Named], *, needs_tool: bool) -> None:
    """Raise ConfigurationError for a pattern that fits no operation, or none that is offered."""
    fitting = [each for each in by_name.values() if fits(pattern, each)]
    if fitting and needs_tool and all(each.is_left_out for each in fitting):
        raise ConfigurationError(
            f"{pattern!r} is none of the tools, because it writes: give read_only=False"
        )
    if not fitting:
        names = {name for each in by_name.values() for name in each.names}
        hint = did_you_mean(pattern, names, f"there are {', '.join(sorted(by_name))}")
        raise ConfigurationError(f"{pattern!r} is none of the operations: {hint}")
