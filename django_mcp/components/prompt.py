"""Prompts: the first messages of a conversation, chosen and filled in by a user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Unpack

from pydantic import BaseModel
from pydantic_core import from_json

from django_mcp.components import declaration, schemas, stored
from django_mcp.components import signature as signatures
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.declaration import ComponentAttributes, ComponentSource, Options
from django_mcp.components.schemas import InputSchema
from django_mcp.components.signature import CallConvention, Signature
from django_mcp.protocol.errors import Json


class Prompt(ComponentAttributes):
    """A prompt written as a class: derive from it and write ``get_messages``.

    With an inner pydantic model ``Input``, or ``arguments`` (a list of ``{"name", "description",
    "required"}``, a JSON Schema, or a model), write ``get_messages(self, params, frame)``;
    without either, ``get_messages(self, topic: str)``, where the parameters are the arguments.
    """

    arguments: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptComponent(Component):
    """A registered prompt."""

    kind: ClassVar[str] = "prompt"

    input: InputSchema
    arguments: tuple[Json, ...] = ()
    """The arguments in lists: name, title, description, and whether it is required."""

    def validate_input(self, arguments: dict[str, Any]) -> Any:
        """The validated ``arguments``, which are strings, for its handler.

        Raises InvalidArguments.
        """
        return self.input.validate(arguments)

    def descriptor(self) -> dict[str, Any]:
        """Its entry in a list, in the format of the newest revision."""
        return self._describe(
            description=self.listed_description or None, arguments=list(self.arguments) or None
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> PromptComponent:
        """The prompt with the specification ``spec``: options of its builder, and ``handler``."""
        return _from_spec(stored.canonical(spec))


class PromptOptions(Options, total=False):
    """The options of the registration of a prompt."""

    arguments: type[BaseModel] | Json | Sequence[Json] | None


def prompt_component(target: Any, **options: Unpack[PromptOptions]) -> PromptComponent:
    """The component of a function, a Prompt class or an instance of one.

    The options override the attributes of the class. Raises ConfigurationError with the remedy.
    """
    return _build(declaration.read(target, Prompt, "get_messages", options, PromptOptions))


def _build(source: ComponentSource) -> PromptComponent:
    signature = source.signature()
    arguments, call = _read_input(source, signature)
    return PromptComponent(
        name=source.name(),
        complete=source.completers(arguments.schema.get("properties", ()), signature),
        input=_decode_json(arguments),
        arguments=tuple(_listed(arguments.schema)),
        **call._asdict(),
        **source.common(),
    )


def _read_input(
    source: ComponentSource, signature: Signature
) -> tuple[InputSchema, CallConvention]:
    """The arguments and the call convention: one value where the arguments are declared."""
    declared = source.input_model("arguments")
    if declared is None:
        if signature.has_var_keyword:
            raise ConfigurationError(
                f"{source.where} takes any keyword, but the arguments of a prompt are listed: "
                "name them, or declare arguments"
            )
        call = signatures.by_keywords(source.function, signature)
        return schemas.input_of_signature(signature), call
    call = signatures.by_value(source.function, signature)
    if isinstance(declared, list | tuple):
        declared = _schema_of_list(declared, source.where)
    return schemas.input_of(declared, source.where), call


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
    return {part: str(argument[part]) for part in ("title", "description") if argument.get(part)}


def _listed(schema: Json) -> Iterable[dict[str, Any]]:
    """The arguments in the format of a list of prompts."""
    required = schema.get("required", ())
    for name, property_schema in schema.get("properties", {}).items():
        # A schema may be the boolean true.
        described = property_schema if isinstance(property_schema, Mapping) else {}
        is_required = name in required
        description = _default_description(described, is_required)
        labels = {"description": description, **_labels(described)}
        yield {"name": name, **labels, "required": is_required}


def _default_description(described: Json, is_required: bool) -> str:
    kind = described.get("type", "")
    words = ["Required" if is_required else "Optional", kind, "parameter"]
    return " ".join(word for word in words if isinstance(word, str) and word)


def _decode_json(arguments: InputSchema) -> InputSchema:
    """Decode the arguments that cannot be strings: the arguments of a prompt are sent as strings.

    pydantic converts strings to numbers and dates, but neither to lists nor to objects, and a JSON
    Schema converts nothing. A string that is no JSON is left as it is, for validation to reject.
    """
    definitions = arguments.schema.get("$defs", {})
    encoded = {
        name
        for name, described in arguments.schema.get("properties", {}).items()
        if not _may_be_string(described, definitions)
    }
    if not encoded:
        return arguments

    def validate(given: dict[str, Any]) -> Any:
        decoded = {name: _decoded(given[name]) for name in encoded & given.keys()}
        return arguments.validate({**given, **decoded})

    return InputSchema(arguments.schema, validate)


def _may_be_string(described: Any, definitions: Json) -> bool:
    if not isinstance(described, Mapping):
        return True
    if reference := described.get("$ref"):
        return _may_be_string(definitions.get(reference.rpartition("/")[2]), definitions)
    if choices := described.get("anyOf") or described.get("oneOf"):
        return any(_may_be_string(choice, definitions) for choice in choices)
    return "string" in described.get("type", "string")


def _decoded(text: Any) -> Any:
    try:
        return from_json(text)
    except (TypeError, ValueError):
        return text


@lru_cache(maxsize=stored.CACHED_SPECS)
def _from_spec(spec: bytes) -> PromptComponent:
    return stored.restore(spec, prompt_component, _placeholder, arguments=[])


def _placeholder(params: Any) -> None:
    """Replaces the handler of a prompt whose messages a hook of the server returns."""
