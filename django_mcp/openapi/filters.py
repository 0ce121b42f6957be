"""Filters of lists that have so many that they become one argument.

Some sites generate a dozen filters for each field: ``name__ic``, ``name__nic``, ``name__isw``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.core.protocol.schema import compiler
from django_mcp.core.protocol.texts import similar
from django_mcp.forms.fields import tool_error
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
        """An object; its description has the names, the fields of the same lookups in one line."""
        lookups: dict[str, list[str]] = {}
        for name in sorted(self.members):
            field, _, lookup = name.partition(LOOKUP)
            lookups.setdefault(field, []).append(lookup)
        fields: dict[str, list[str]] = {}
        for field, names in lookups.items():
            fields.setdefault(", ".join(names), []).append(field)
        lines = [f"{', '.join(names)}: {suffixes}" for suffixes, names in fields.items()]
        example = min(self.members)
        introduction = (
            f'More filters, as {{"{example}": value}}: a field, {LOOKUP}, and one of its '
            "lookups. The fields, and the lookups of each:"
        )
        return {"type": "object", "description": "\n".join([introduction, *lines])}

    def unfolded(self, values: Mapping[str, Any], definitions: Schema) -> dict[str, Any]:
        """Return the values by parameter; raises ToolError for unknown and invalid ones.

        ``definitions`` has the schemas that those of the parameters refer to.
        """
        problems = []
        for name, value in values.items():
            if name in self.members:
                schema = {**self.members[name].schema, "$defs": definitions}
                validator = compiler.compile(schema)
                problems.append(validator.problems(value, name=name))
            else:
                near = similar(name, self.members)
                question = f"; did you mean {near!r}?" if near else ""
                problems.append(f"{name}: there is no such filter{question}")
        if any(problems):
            raise tool_error(INVALID, filter(None, problems))
        return dict(values)


def folded(parameters: Sequence[Parameter]) -> tuple[list[Parameter], Folded | None]:
    """Return the parameters that stay arguments, and the others if there are too many."""
    is_taken = any(each.name == FILTERS for each in parameters)
    if len(parameters) <= MAX_PARAMETERS or is_taken:
        return [*parameters], None
    fields = Counter(each.name.partition(LOOKUP)[0] for each in parameters)
    members = {}
    for parameter in parameters:
        has_several_lookups = fields[parameter.name.partition(LOOKUP)[0]] > 1
        if LOOKUP in parameter.name and has_several_lookups and not parameter.is_required:
            members[parameter.name] = parameter
    kept = [each for each in parameters if each.name not in members]
    return kept, Folded(members) if members else None
