"""Filters of lists that have so many that they become one argument.

Some sites generate a dozen filters for each field: ``name__ic``, ``name__nic``, ``name__isw``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.core.protocol.schema import compiler
from django_mcp.core.protocol.texts import similar
from django_mcp.forms.messages import tool_error
from django_mcp.openapi.parameters import Parameter

Schema = dict[str, Any]

MAX_PARAMETERS = 25
"""Query parameters of a tool. Where there are more, filters with a lookup are folded into one."""
FILTERS = "filters"
"""The argument with the folded filters."""
LOOKUP = "__"
INVALID = "A filter is invalid."


@dataclass(frozen=True, slots=True)
class Folded:
    """The filters in the argument FILTERS, by name."""

    members: Mapping[str, Parameter]

    @property
    def schema(self) -> Schema:
        return {"type": "object", "description": self._description()}

    def _description(self) -> str:
        """The names, with the fields of the same lookups in one line."""
        lookups: dict[str, list[str]] = {}
        for name in sorted(self.members):
            field, _, lookup = name.partition(LOOKUP)
            lookups.setdefault(field, []).append(lookup)
        fields: dict[str, list[str]] = {}
        for field, names in lookups.items():
            fields.setdefault(", ".join(names), []).append(field)
        lines = [f"{', '.join(names)}: {suffixes}" for suffixes, names in fields.items()]
        example = min(self.members)
        return "\n".join(
            [
                f'More filters, as {{"{example}": value}}: a field, {LOOKUP}, and one of its '
                "lookups. The fields, and the lookups of each:",
                *lines,
            ]
        )

    def unfolded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by parameter; raises ToolError for unknown and invalid ones."""
        problems = [problem for name, value in values.items() if (problem := self._of(name, value))]
        if problems:
            raise tool_error(INVALID, problems)
        return dict(values)

    def _of(self, name: str, value: Any) -> str:
        """Return the problem with one filter, or an empty string."""
        if name in self.members:
            validator = compiler.compile(self.members[name].schema)
            return validator.problems(value, name=name)
        near = similar(name, self.members)
        return f"{name}: there is no such filter{f'; did you mean {near!r}?' if near else ''}"


def folded(parameters: Sequence[Parameter]) -> tuple[list[Parameter], Folded | None]:
    """Return the parameters that stay arguments, and the others if there are too many."""
    if len(parameters) <= MAX_PARAMETERS:
        return [*parameters], None
    fields = _with_several_lookups(each.name for each in parameters)
    members = {
        each.name: each
        for each in parameters
        if LOOKUP in each.name and each.name.partition(LOOKUP)[0] in fields and not each.is_required
    }
    kept = [each for each in parameters if each.name not in members]
    return kept, Folded(members) if members else None


def _with_several_lookups(names: Iterable[str]) -> set[str]:
    fields = [name.partition(LOOKUP)[0] for name in names]
    return {field for field in fields if fields.count(field) > 1}
