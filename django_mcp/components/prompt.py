"""Prompts: conversations to begin with, which a user chooses and fills in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Unpack

from pydantic import BaseModel
from pydantic_core import from_json

from django_mcp.components import schemas, signature
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.declaration import ComponentAttributes, ComponentSource, Options, opened
from django_mcp.components.schemas import InputSchema
from django_mcp.components.signature import CallConvention, Signature
from django_mcp.components.stored import SPECS_KEPT, canonical, restored
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
    """A prompt, ready to be listed and filled in."""

    kind: ClassVar[str] = "prompt"

    input: InputSchema
    arguments: tuple[Json, ...] = ()
    """What the user is asked for: name, title, description, and whether it is required."""

    def validate_input(self, arguments: dict[str, Any]) -> Any:
        """What its handler is given for ``arguments``, which are text; raises ArgumentsInvalid."""
        return self.input.validate(arguments)

    def descriptor(self) -> dict[str, Any]:
        """How it is listed, in the words of the newest revision."""
        return self._describe(
            description=self.listed_description or None, arguments=list(self.arguments) or None
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> PromptComponent:
        """The prompt which ``spec`` describes: the options of its builder, and ``handler``."""
        return _from_spec(canonical(spec))


class PromptOptions(Options, total=False):
    """What can be said of a prompt where it is registered."""

    arguments: type[BaseModel] | Json | Sequence[Json] | None


def prompt_component(target: Any, **options: Unpack[PromptOptions]) -> PromptComponent:
    """The prompt which a function, a Prompt class or an instance of one is.

    What is given here wins over the attributes of the class. Raises ConfigurationError, which
    names the remedy.
    """
    return _declared(opened(target, Prompt, "get_messages", options, PromptOptions))


def _declared(declaration: ComponentSource) -> PromptComponent:
    asked = declaration.signature()
    taken, call = _taken(declaration, asked)
    return PromptComponent(
        name=declaration.name(),
        invoke=call.invoke,
        is_async=call.is_async,
        takes_frame=call.takes_frame,
        complete=declaration.completers(taken.schema.get("properties", ()), asked),
        input=_of_text(taken),
        arguments=tuple(_listed(taken.schema)),
        **declaration.common(),
    )


def _taken(declaration: ComponentSource, asked: Signature) -> tuple[InputSchema, CallConvention]:
    """What the prompt is given, and how: as one value when its arguments are declared."""
    declared = declaration.get("arguments")
    if declared is None:
        declared = getattr(declaration.author, "Input", None)
    if declared is None:
        if asked.rest:
            raise ConfigurationError(
                f"{declaration.where} takes any keyword, but users are asked for its arguments: "
                "name them, or declare arguments"
            )
        call = signature.by_keywords(declaration.function, asked)
        return schemas.input_of_signature(asked), call
    call = signature.by_value(declaration.function, asked)
    if isinstance(declared, list | tuple):
        declared = _schema_of_list(declared, declaration.where)
    return schemas.input_of(declared, declaration.where), call


def _schema_of_list(arguments: Sequence[Any], where: str) -> dict[str, Any]:
    """The JSON Schema of arguments in the words of a prompt's listing: all of them are text."""
    if not all(isinstance(each, Mapping) and each.get("name") for each in arguments):
        raise ConfigurationError(
            f'The arguments of {where} need names: write [{{"name": …, "description": …}}]'
        )
    return {
        "type": "object",
        "properties": {each["name"]: {"type": "string", **_told(each)} for each in arguments},
        "required": [each["name"] for each in arguments if each.get("required")],
        "additionalProperties": False,
    }


def _told(described: Json) -> dict[str, Any]:
    return {part: str(described[part]) for part in ("title", "description") if described.get(part)}


def _listed(schema: Json) -> Iterable[dict[str, Any]]:
    """The arguments as they are listed."""
    required = schema.get("required", ())
    for name, written in schema.get("properties", {}).items():
        # A schema may be true, which says nothing.
        described = written if isinstance(written, Mapping) else {}
        is_required = name in required
        told = {"description": _made_up(described, is_required), **_told(described)}
        yield {"name": name, **told, "required": is_required}


def _made_up(described: Json, is_required: bool) -> str:
    """What to say of an argument whose author said nothing."""
    kind = described.get("type", "")
    words = ["Required" if is_required else "Optional", kind, "parameter"]
    return " ".join(word for word in words if isinstance(word, str) and word)


def _of_text(taken: InputSchema) -> InputSchema:
    """The input, for arguments which are all text: what can only be something else is JSON.

    pydantic reads numbers and dates from text itself, but neither lists nor objects, and a JSON
    Schema reads nothing. What is no JSON is left as it is, to be complained of.
    """
    definitions = taken.schema.get("$defs", {})
    encoded = {
        name
        for name, described in taken.schema.get("properties", {}).items()
        if not _may_be_text(described, definitions)
    }
    if not encoded:
        return taken

    def validate(arguments: dict[str, Any]) -> Any:
        read = {name: _decoded(arguments[name]) for name in encoded & arguments.keys()}
        return taken.validate({**arguments, **read})

    return InputSchema(taken.schema, validate)


def _may_be_text(described: Any, definitions: Json) -> bool:
    if not isinstance(described, Mapping):
        return True
    if reference := described.get("$ref"):
        return _may_be_text(definitions.get(reference.rpartition("/")[2]), definitions)
    if choices := described.get("anyOf") or described.get("oneOf"):
        return any(_may_be_text(choice, definitions) for choice in choices)
    return "string" in described.get("type", "string")


def _decoded(text: Any) -> Any:
    try:
        return from_json(text)
    except (TypeError, ValueError):
        return text


@lru_cache(maxsize=SPECS_KEPT)
def _from_spec(spec: bytes) -> PromptComponent:
    return restored(spec, prompt_component, _unanswered, arguments=[])


def _unanswered(params: Any) -> None:
    """Stands for the handler of a prompt whose messages the server gives."""
