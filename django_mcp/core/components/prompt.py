"""Prompts: the first messages of a conversation, chosen and filled in by a user."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Unpack

from pydantic import BaseModel

from django_mcp.core.components import declaration, stored
from django_mcp.core.components.argument_size import is_small
from django_mcp.core.components.arguments import decoded, non_strings, optional_names
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.declaration import ComponentAttributes, Options
from django_mcp.core.components.invalid_arguments import InvalidArguments, LargeArguments
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.limits import MAX_VALUES
from django_mcp.core.protocol.texts import is_text


class Prompt(ComponentAttributes):
    """A prompt written as a class: derive from it and write ``get_messages``.

    With an inner pydantic model ``Input``, or ``arguments``, write ``get_messages(self, params,
    frame)``; otherwise the parameters are the arguments.
    """

    arguments: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptComponent(Component):
    """A prompt. Clients send its arguments as strings."""

    kind: ClassVar[str] = "prompt"
    input: InputSchema
    arguments: tuple[Json, ...] = ()
    """The arguments in lists: name, title, description, and whether it is required."""

    def validate_input(self, arguments: dict[str, Any]) -> Any:
        return self.input.validate(arguments)

    def descriptor(self) -> dict[str, Any]:
        return self._describe(
            description=self.listed_description or None, arguments=list(self.arguments) or None
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> PromptComponent:
        return _from_spec(stored.canonical(spec))


class PromptOptions(Options, total=False):
    arguments: type[BaseModel] | Json | Sequence[Json] | None


def prompt_component(target: Any, **options: Unpack[PromptOptions]) -> PromptComponent:
    """The component of a function, a Prompt class or an instance of one."""
    source = declaration.read(target, Prompt, "get_messages", options, PromptOptions)
    declared = source.input_model("arguments")
    if isinstance(declared, list | tuple):
        declared = _schema_of_list(declared, source.where)
    arguments, call = source.read_input(
        declared, "the arguments of a prompt are listed: name them, or declare arguments"
    )
    properties = arguments.schema.get("properties", ())
    filled_in = _decode_json(arguments)
    if optional := optional_names(arguments.schema):
        filled_in = filled_in.map(partial(_without_empty, optional))
    return PromptComponent(
        name=source.name(),
        complete=source.completers(properties, source.signature.parameters),
        input=filled_in,
        arguments=tuple(_listed(arguments.schema)),
        **call._asdict(),
        **source.common(),
    )


def _schema_of_list(arguments: Sequence[Any], where: str) -> dict[str, Any]:
    """The JSON Schema of arguments in the format of a list of prompts: all of them are strings."""
    if not all(isinstance(each, Mapping) and each.get("name") for each in arguments):
        raise ConfigurationError(
            f'The arguments of {where} need names: write [{{"name": …, "description": …}}]'
        )
    return {
        "type": "object",
        "properties": {each["name"]: {"type": "string", **_labels(each)} for each in arguments},
        "required": [each["name"] for each in arguments if each.get("required")],
        "additionalProperties": False,
    }


def _labels(argument: Json) -> dict[str, Any]:
    labels = {part: argument[part] for part in ("title", "description") if argument.get(part)}
    # A text stays as it is: a lazy translation is resolved for each list.
    return {part: text if is_text(text) else str(text) for part, text in labels.items()}


def _listed(schema: Json) -> Iterable[dict[str, Any]]:
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    for name, property_schema in schema.get("properties", {}).items():
        # A schema may be the boolean true, and a type a list.
        described = property_schema if isinstance(property_schema, Mapping) else {}
        kind = described.get("type")
        parameter = f"{kind} parameter" if kind and isinstance(kind, str) else "parameter"
        description = f"{'Required' if name in required else 'Optional'} {parameter}"
        labels = {"description": description, **_labels(described)}
        choices = _choices(described, definitions)
        # A lazy translation has no language yet, so nothing can be added to it.
        if choices and isinstance(labels["description"], str):
            labels["description"] = f"{labels['description']} (one of: {', '.join(choices)})"
        yield {"name": name, **labels, "required": name in required}


def _choices(described: Any, definitions: Json) -> list[str]:
    """The values of a Literal or an Enum in a JSON Schema: arguments of prompts have no schema."""
    if not isinstance(described, Mapping):
        return []
    if reference := described.get("$ref"):
        return _choices(definitions.get(reference.rpartition("/")[2]), definitions)
    if members := described.get("anyOf"):
        return [choice for member in members for choice in _choices(member, definitions)]
    values = described.get("enum", [described["const"]] if "const" in described else [])
    return [str(value) for value in values]


def _decode_json(arguments: InputSchema) -> InputSchema:
    """Decode the arguments that cannot be strings: the arguments of a prompt are sent as strings.

    pydantic converts strings to numbers and dates, but neither to lists nor to objects, and a JSON
    Schema converts nothing. A string that is no JSON is left as it is, for validation to reject.
    """
    encoded = {*non_strings(arguments.schema)}
    if not encoded:
        return arguments

    max_values = MAX_VALUES // len(encoded)

    def decode(given: dict[str, Any]) -> dict[str, Any]:
        names = encoded & given.keys()
        return {**given, **{name: decoded(given[name], max_values) for name in names}}

    def validate(given: dict[str, Any]) -> Any:
        if not is_small(given):
            raise LargeArguments
        return arguments.validate(decode(given))

    def validate_large(given: dict[str, Any]) -> Any:
        validate_decoded = arguments.validate_large or arguments.validate
        return validate_decoded(decode(given))

    return InputSchema(arguments.schema, validate, validate_large)


def _without_empty(
    optional: Collection[str], validate: Callable[[dict[str, Any]], Any]
) -> Callable[[dict[str, Any]], Any]:
    """``validate``, without optional arguments that are empty where no value of their type is.

    A client with a field for each argument sends an empty string for one that is not filled in.
    """

    def validate_filled_in(given: dict[str, Any]) -> Any:
        try:
            return validate(given)
        except InvalidArguments:
            filled_in = {
                name: value for name, value in given.items() if value != "" or name not in optional
            }
            if len(filled_in) == len(given):
                raise
            return validate(filled_in)

    return validate_filled_in


@lru_cache(maxsize=stored.CACHED_SPECS)
def _from_spec(spec: bytes) -> PromptComponent:
    return stored.restore(spec, prompt_component, stored.placeholder, arguments=[])
