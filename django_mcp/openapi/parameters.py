"""Parameters of operations, which are arguments of tools beside the path and the body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.schemas import to_json_schema, with_examples

Schema = dict[str, Any]


QUERY = "query"
HEADER = "header"
COOKIE = "cookie"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``separator`` joins the items of a list; without one it is repeated."""

    name: str
    schema: Schema
    is_required: bool = False
    separator: str | None = None
    place: str = QUERY

    def values(self, value: Any) -> Iterable[str]:
        """Return the values in the query for the value of an argument."""
        values = value if isinstance(value, list) else [value]
        items = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
        return items if self.separator is None else [self.separator.join(items)]


def encode(parameters: Iterable[Parameter], arguments: Mapping[str, Any]) -> str:
    """Return the query string for the arguments that are parameters; None is left out."""
    return urlencode(
        [
            (each.name, value)
            for each in parameters
            if each.place == QUERY and arguments.get(each.name) is not None
            for value in each.values(arguments[each.name])
        ]
    )


def headers(parameters: Iterable[Parameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for the arguments that are parameters; raises ToolError.

    A header has no line breaks, and no characters outside of ISO 8859-1.
    """
    sent = {}
    for parameter in parameters:
        value = arguments.get(parameter.name)
        if parameter.place == HEADER and value is not None:
            text = ",".join(parameter.values(value))
            is_latin = all(ord(character) < 256 for character in text)
            if not text.isprintable() or not is_latin:
                raise ToolError(f"{parameter.name}: a header cannot have these characters")
            sent[parameter.name.replace("_", "-").lower()] = text
    return sent


def of_openapi(parameter: Mapping[str, Any], *, place: str = QUERY) -> Parameter:
    """Return a parameter as a document of OpenAPI describes it."""
    schema = to_json_schema(parameter.get("schema") or {"type": "string"})
    schema = with_examples(schema, parameter)
    if description := parameter.get("description"):
        schema = {**schema, "description": str(description)}
    is_joined = parameter.get("explode") is False or parameter.get("style") in SEPARATORS
    separator = SEPARATORS.get(parameter.get("style", "form"), ",") if is_joined else None
    required = bool(parameter.get("required"))
    name = str(parameter["name"])
    if name.endswith(OF_SEVERAL) and schema.get("type") not in ("array", None):
        # A filter that takes several values is often described by the type of one.
        schema = several(schema)
        separator = ","
    return Parameter(name, schema, required, separator, place)


def several(schema: Schema) -> Schema:
    """Return the schema of a list of values, with the description of one."""
    of_one = {key: it for key, it in schema.items() if key != "description"}
    described = {key: it for key, it in schema.items() if key == "description"}
    return {"type": "array", "items": of_one, "minItems": 1, **described}


OF_SEVERAL = "__in"
SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}
