"""Parameters of operations, which are arguments of tools beside the path and the body."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.schemas import to_json_schema, with_examples

Schema = dict[str, Any]


QUERY = "query"
HEADER = "header"
COOKIE = "cookie"
OF_PROXIES = (
    *("authorization", "cookie", "proxy-authorization", "remote-user", "x-remote-user"),
    *("forwarded", "host", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"),
    *("cf-connecting-ip", "fastly-client-ip"),
)
"""Headers that say who a caller is, or where they are: no argument sets one."""
OF_PROXIES_PREFIX = "x-forwarded"
IGNORED = ("accept", "content-type")
"""Headers that OpenAPI describes elsewhere: parameters of these names are to be ignored."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``separator`` joins the items of a list, or the names and values of an object.

    Without one, each item has the name of the parameter, and each value of an object its own.
    """

    name: str
    schema: Schema
    is_required: bool = False
    separator: str | None = None
    place: str = QUERY
    is_deep: bool = False
    """Whether values of an object have names such as ``name[key]``."""

    def has_own_names(self, value: Any) -> bool:
        """Whether the names of an object are sent beside its values."""
        return isinstance(value, dict) and (self.is_deep or self.separator is None)

    def pairs(self, value: Any) -> Iterator[tuple[str, str]]:
        """Yield the names and values that are sent for an argument; raises ToolError."""
        if self.has_own_names(value):
            yield from _members(self.name, value, is_deep=self.is_deep)
            return
        if isinstance(value, dict):
            texts = [text for pair in _members(self.name, value, is_deep=False) for text in pair]
        else:
            texts = _texts(self.name, value)
        joined = texts if self.separator is None else [self.separator.join(texts)]
        for text in joined:
            yield self.name, text


MAX_EXACT = 2**53
"""The largest integer that each smaller one is told apart from, as a float."""


def _members(path: str, value: Mapping[str, Any], *, is_deep: bool) -> Iterator[tuple[str, str]]:
    """Yield the names and values of an object; raises ToolError."""
    for key, member in value.items():
        inner = f"{path}[{key}]"
        if isinstance(member, dict) and is_deep:
            yield from _members(inner, member, is_deep=True)
        elif member is not None:
            for text in _texts(inner, member):
                yield inner if is_deep else key, text


def _texts(path: str, value: Any) -> list[str]:
    """Return a value as text, or each item of a list; raises ToolError for what has no text.

    None is left out.
    """
    values = [each for each in (value if isinstance(value, list) else [value]) if each is not None]
    if any(isinstance(each, list | dict) for each in values):
        raise ToolError(f"{path}: an object or a list cannot be sent here")
    return [str(each).lower() if isinstance(each, bool) else str(whole(each)) for each in values]


def whole(value: Any) -> Any:
    """Return a value of JSON; the integer 5 for 5.0, which is an integer in JSON Schema."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT
    return int(value) if is_whole else value


def encode(parameters: Iterable[Parameter], arguments: Mapping[str, Any]) -> str:
    """Return the query string for the arguments that are parameters; raises ToolError.

    None is left out. A member of an object cannot have the name of another parameter.
    """
    queried = [each for each in parameters if each.place == QUERY]
    names = {each.name for each in queried}
    sent: list[tuple[str, str]] = []
    for parameter in queried:
        value = arguments.get(parameter.name)
        pairs = () if value is None else parameter.pairs(value)
        for name, text in pairs:
            if name in names and name != parameter.name:
                raise ToolError(f"{parameter.name}[{name}]: {name} is a parameter of its own")
            sent.append((name, text))
    return urlencode(sent)


def headers(parameters: Iterable[Parameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for the arguments that are parameters; raises ToolError.

    A header has no line breaks, and no characters outside of ISO 8859-1.
    """
    sent = {}
    for parameter in parameters:
        value = arguments.get(parameter.name)
        if parameter.place == HEADER and value is not None:
            is_named = parameter.has_own_names(value)
            pairs = parameter.pairs(value)
            text = ",".join("=".join(pair) if is_named else pair[1] for pair in pairs)
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
    style = parameter.get("style", "simple" if place == HEADER else "form")
    # Only the style "form" is exploded unless the document says otherwise.
    is_exploded = parameter.get("explode", style in ("form", DEEP))
    is_joined = not is_exploded or style in SEPARATORS
    separator = SEPARATORS.get(style, ",") if is_joined else None
    required = bool(parameter.get("required"))
    name = str(parameter["name"])
    if name.endswith(OF_SEVERAL) and schema.get("type") not in ("array", None):
        # A filter that takes several values is often described by the type of one.
        schema = several(schema)
        separator = ","
    return Parameter(name, schema, required, separator, place, style == DEEP)


def several(schema: Schema) -> Schema:
    """Return the schema of a list of values, with the description of one."""
    of_one = {key: it for key, it in schema.items() if key != "description"}
    described = {key: it for key, it in schema.items() if key == "description"}
    return {"type": "array", "items": of_one, "minItems": 1, **described}


OF_SEVERAL = "__in"
DEEP = "deepObject"
SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


def usable(
    parameters: Iterable[Parameter], secret_headers: Collection[str], where: str
) -> list[Parameter]:
    """Return the parameters that may be arguments; raises ConfigurationError for a needed other.

    Credentials, and headers that a proxy sets, are not: a model must not choose them.
    """
    kept = []
    for parameter in parameters:
        name = parameter.name.lower().replace("_", "-")
        if parameter.place == HEADER and name in IGNORED:
            continue
        is_of_proxy = name in OF_PROXIES or name.startswith(OF_PROXIES_PREFIX)
        is_of_caller = parameter.place == COOKIE or name in secret_headers
        if is_of_caller or (parameter.place == HEADER and is_of_proxy):
            if parameter.is_required:
                raise ConfigurationError(
                    f"{where} needs the {parameter.place} {parameter.name!r}, which no argument of "
                    "a tool may be: set it by prepare=…, or leave the operation out"
                )
        else:
            kept.append(parameter)
    return kept
