"""One tool for several operations of a view, which its argument ``action`` chooses between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.invalid_arguments import InvalidArguments
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.frame.frame import Frame
from django_mcp.forms.fields import tool_error

Schema = dict[str, Any]

OF_ACTIONS = {"name", "description", "serializer", "query", "answer"}
"""The options of one action of several."""
ACTION = "action"
"""The argument that chooses the operation."""


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


class Combination:
    """The operations of one view, and their common tool."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._members: dict[str, ToolComponent] = {}

    def add(self, action: str, component: ToolComponent, options: Mapping[str, Any]) -> None:
        """Add an operation; raises ConfigurationError for a name that another one has.

        It also raises it for options that one of several cannot have: a permission of its own, for
        instance, would not be asked.
        """
        if action in self._members:
            raise ConfigurationError(
                f"its tool has another action {action!r} already: leave one of them out, or "
                "declare it without one_tool_per_view"
            )
        if ACTION in component.input_schema["properties"]:
            raise ConfigurationError(
                f"the action {action!r} has an argument {ACTION!r} of its own, with which one tool "
                "of several actions chooses between them: leave the action out, or declare it "
                "without one_tool_per_view"
            )
        if own := options.keys() - self._options.keys() - OF_ACTIONS:
            raise ConfigurationError(
                f"the action {action!r} has the option {sorted(own)[0]!r}, which is that of a "
                "tool: give it to all actions, or leave one_tool_per_view out"
            )
        self._members[action] = component

    def component(self, name: str) -> ToolComponent:
        """Return the tool; its hints are those that hold for all operations."""
        members = self._members.values()
        permissions: list[Any] = [member.permission for member in members]
        is_async = any(member.is_async for member in members)
        declared: dict[str, Any] = {
            "name": name,
            "description": "\n".join(self._lines()),
            "input_schema": self._schema(),
            "read_only": all(member.reads_only for member in members),
            "permission": AnyAccess(permissions) if all(map(callable, permissions)) else None,
            **self._options,
        }
        return tool_component(self._call_async if is_async else self._call, **declared)

    def _call(self, arguments: dict[str, Any], frame: Frame) -> Any:
        member, own = self._chosen(arguments)
        return member.handler(own, frame)

    async def _call_async(self, arguments: dict[str, Any], frame: Frame) -> Any:
        member, own = self._chosen(arguments)
        if member.is_async:
            return await member.handler(own, frame)
        return await frame.exchange.run(member.handler, own, frame)

    def _chosen(self, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the operation and its valid arguments; raises ToolError for invalid ones."""
        member = self._members[arguments[ACTION]]
        given = {name: value for name, value in arguments.items() if name != ACTION}
        validate = member.input.validate_large or member.input.validate
        try:
            return member, validate(given)
        except InvalidArguments as error:
            summary = f"The arguments of the action {arguments[ACTION]!r} are invalid."
            raise tool_error(summary, [error.problems]) from error

    def _lines(self) -> Iterator[str]:
        """The text of each action, and its arguments."""
        for action, member in self._members.items():
            required = member.input_schema.get("required") or []
            optional = [name for name in member.input_schema["properties"] if name not in required]
            takes = ", ".join([*required, *(f"[{name}]" for name in optional)])
            summary = member.listed_description.partition("\n")[0]
            yield f"{ACTION}={action}: {summary} Takes {takes or 'nothing else'}."

    def _schema(self) -> Schema:
        """The arguments of all actions; each action validates its own besides."""
        schemas = [member.input_schema for member in self._members.values()]
        properties = [
            {name: {key: it for key, it in of_one.items() if key != "default"}}
            for schema in schemas
            for name, of_one in schema["properties"].items()
        ]
        schema: Schema = {
            "type": "object",
            "properties": {ACTION: {"enum": [*self._members]}, **_merged(properties)},
            "required": [ACTION],
            "additionalProperties": False,
        }
        definitions = _merged(schema.get("$defs", {}) for schema in schemas)
        return {**schema, "$defs": definitions} if definitions else schema


def _merged(members: Iterable[Schema]) -> Schema:
    """Return the schemas of several objects by name; where they differ, one of them is enough."""
    variants: dict[str, list[Schema]] = {}
    for schemas in members:
        for name, schema in schemas.items():
            if schema not in variants.setdefault(name, []):
                variants[name].append(schema)
    return {
        name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        for name, schemas in variants.items()
    }
