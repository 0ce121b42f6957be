"""Components to try: the request for each kind, and the values that it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django_mcp.admin.try_it.members import MISSING
from django_mcp.core.components.base import Component
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.protocol.errors import Json
from django_mcp.registry import Entry

NOTHING: Json = {"type": "object", "properties": {}}


class Target(NamedTuple):
    """How a component is requested."""

    method: str
    schema: Json
    """The JSON Schema of the values that are entered."""
    params: Callable[[Any], dict[str, Any]]
    """The parameters of the request for these values."""
    values: Callable[[Json], Any]
    """The values that such parameters have, or MISSING."""


def _tool(entry: Entry) -> Target:
    name = entry.component.name
    return Target(
        "tools/call",
        entry.descriptor["inputSchema"],
        lambda values: {"name": name, "arguments": _object(values)},
        _arguments,
    )


def _prompt(entry: Entry) -> Target:
    component = entry.component
    assert isinstance(component, PromptComponent)

    def params(values: Any) -> dict[str, Any]:
        texts = {name: _as_text(value) for name, value in _object(values).items()}
        return {"name": component.name, "arguments": texts}

    return Target("prompts/get", component.input.schema, params, _arguments)


def _resource(entry: Entry) -> Target:
    uri = entry.component.key
    return Target("resources/read", NOTHING, lambda _: {"uri": uri}, lambda _: MISSING)


def _template(entry: Entry) -> Target:
    component = entry.component
    assert isinstance(component, TemplateComponent)
    schema = component.input.schema
    declared = schema.get("properties", {})
    variables = {name: declared.get(name, {"type": "string"}) for name in component.template.names}
    required = [name for name in schema.get("required", ()) if name in variables]

    def params(values: Any) -> dict[str, Any]:
        texts = {name: _as_text(value) for name, value in _object(values).items()}
        return {"uri": component.template.expand(texts)}

    def values_of(params: Json) -> Any:
        return component.template.match(params["uri"]) or MISSING

    return Target(
        "resources/read",
        {**schema, "properties": variables, "required": required},
        params,
        values_of,
    )


TARGETS: Mapping[type[Component], Callable[[Entry], Target]] = {
    ToolComponent: _tool,
    PromptComponent: _prompt,
    ResourceComponent: _resource,
    TemplateComponent: _template,
}


def _arguments(params: Json) -> Any:
    return params["arguments"]


def _object(values: Any) -> Any:
    return {} if values is MISSING else values


def _as_text(value: Any) -> str:
    """Return a value as clients send it where all values are strings."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
