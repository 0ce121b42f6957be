"""The arguments of the tools as pydantic models, and the JSON Schemas of arguments and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, create_model

from django_mcp.core.protocol.limits import MAX_CURSOR
from django_mcp.core.protocol.schema.shapes import or_null
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.declaration import Column, Declaration
from django_mcp.toolsets.kinds import Schema, described, text_argument
from django_mcp.toolsets.lookups import filter_schema

MAX_SEARCH = 200
"""Characters of the argument ``search``."""
MAX_GROUPED = 3
"""Columns that rows are grouped by at once."""


class Parameter(NamedTuple):
    """One argument of a tool."""

    annotation: Any
    schema: Schema
    is_required: bool = False


class Arguments(BaseModel):
    """The arguments of a call, by the names of their parameters."""

    model_config = ConfigDict(extra="forbid")
    names: ClassVar[Mapping[str, str]] = {}
    """The name of the argument in each field of the model."""

    def sent(self) -> dict[str, Any]:
        """Return the arguments that were sent, and not those which have a default."""
        return {self.names[field]: getattr(self, field) for field in self.model_fields_set}


class Input(NamedTuple):
    """The arguments of one tool."""

    model: type[Arguments]
    schema: Schema


def input_of(parameters: Mapping[str, Parameter]) -> Input:
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for index, (name, parameter) in enumerate(parameters.items()):
        # A name of its own: some columns are named as methods of pydantic's models.
        kind: Any = parameter.annotation
        annotation = Annotated[kind, Field(alias=name)]
        fields[f"argument{index}"] = (annotation, ... if parameter.is_required else None)
        names[f"argument{index}"] = name
    model = create_model("ToolsetArguments", __base__=Arguments, **fields)
    model.names = names
    schema = {
        "type": "object",
        "properties": {name: parameter.schema for name, parameter in parameters.items()},
        "required": [name for name, parameter in parameters.items() if parameter.is_required],
        "additionalProperties": False,
    }
    return Input(model, schema)


def key_parameter(column: Column) -> Parameter:
    schema = described(column.kind.input_schema, column.path.titled)
    return Parameter(column.kind.annotation, schema, is_required=True)


def filter_parameters(declaration: Declaration) -> dict[str, Parameter]:
    """The arguments that choose rows: the filters, and ``search``."""
    parameters = {
        name: Parameter(item.type.annotation, filter_schema(item))
        for name, item in declaration.filters.items()
    }
    if declaration.search:
        text = "Words that must all occur, in any case, in one of: "
        described_in = ", ".join(path.name for path in declaration.search)
        schema = {
            "type": "string",
            "maxLength": MAX_SEARCH,
            "description": text + described_in,
        }
        parameters["search"] = Parameter(text_argument(MAX_SEARCH), schema)
    return parameters


def list_parameters(toolset: BaseToolset, declaration: Declaration) -> dict[str, Parameter]:
    parameters = filter_parameters(declaration)
    if declaration.orderings:
        names = [sign + name for name in declaration.orderings for sign in ("", "-")]
        most = len(declaration.orderings)
        description = "The first one sorts first; with -, from the greatest to the smallest"
        parameters["ordering"] = _several(names, most, description)
    most = toolset.max_page_size
    parameters["limit"] = Parameter(
        Annotated[int, Field(ge=1, le=most)],
        {"type": "integer", "minimum": 1, "maximum": most, "default": toolset.page_size},
    )
    parameters["cursor"] = Parameter(
        text_argument(MAX_CURSOR),
        {
            "type": "string",
            "description": "next_cursor of the page before; repeat the other arguments with it",
        },
    )
    return parameters


def aggregate_parameters(declaration: Declaration) -> dict[str, Parameter]:
    parameters = filter_parameters(declaration)
    if declaration.groups:
        description = "One group for each value, or for each period of a date"
        parameters["group_by"] = _several([*declaration.groups], MAX_GROUPED, description)
    if declaration.aggregations:
        names = [*declaration.aggregations]
        parameters["aggregates"] = _several(names, len(names), "Computed for each group")
    return parameters


def _several(names: list[str], most: int, description: str) -> Parameter:
    """The parameter for some of several names, each at most once."""
    choice: Any = Literal[tuple(names)]
    annotation = Annotated[list[choice], Field(min_length=1, max_length=most)]
    schema = {
        "type": "array",
        "items": {"type": "string", "enum": names},
        "minItems": 1,
        "maxItems": most,
        "description": description,
    }
    return Parameter(annotation, schema)


def row_schema(declaration: Declaration) -> Schema:
    properties = {column.name: column.schema for column in declaration.columns}
    return _object(properties)


def page_schema(declaration: Declaration) -> Schema:
    items = {"type": "array", "items": row_schema(declaration)}
    cursor = or_null({"type": "string", "description": "Null on the last page"})
    return _object({"items": items, "next_cursor": cursor})


def count_schema() -> Schema:
    return _object({"count": {"type": "integer"}})


def groups_schema(declaration: Declaration) -> Schema:
    """The schema of groups, each with its values, its count, and the requested aggregates."""
    properties: dict[str, Schema] = {}
    for name, grouping in declaration.groups.items():
        period = described(
            {"type": "string", "format": "date"}, grouping.column.path.titled, is_nullable=True
        )
        properties[name] = period if grouping.period else or_null(grouping.column.schema)
    for name, item in declaration.aggregations.items():
        kind = item.column.kind
        is_average = item.function == "avg" and kind.name == "integer"
        schema = {"type": "number"} if is_average else kind.schema
        properties[name] = described(schema, item.column.path.titled, is_nullable=True)
    group = {
        "type": "object",
        "properties": {**properties, "count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": False,
    }
    more = {"type": "boolean", "description": "Whether there are groups with smaller counts"}
    return _object({"groups": {"type": "array", "items": group}, "has_more": more})


def deletion_schema(key: Column) -> Schema:
    rows = _object({"name": {"type": "string"}, "count": {"type": "integer"}})
    return _object({key.name: key.schema, "deleted": {"type": "array", "items": rows}})


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
