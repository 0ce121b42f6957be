"""Tools: functions which a model may call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Unpack, cast

from pydantic import BaseModel

from django_mcp.components import schemas, signature
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.declaration import ComponentAttributes, ComponentSource, Options, opened
from django_mcp.components.schemas import InputSchema, OutputSchema
from django_mcp.components.signature import CallConvention, Signature
from django_mcp.components.stored import SPECS_KEPT, canonical, restored
from django_mcp.protocol import headers
from django_mcp.protocol.errors import Json

TaskSupport = Literal["forbidden", "optional", "required"]
TASK_SUPPORT = ("forbidden", "optional", "required")

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
"""The options which are hints among the annotations."""


class Tool(ComponentAttributes):
    """A tool written as a class: derive from it and write ``execute``.

    With an inner pydantic model ``Input``, or an ``input_schema`` (a JSON Schema, or a model),
    write ``execute(self, params, frame)``; without either, ``execute(self, a: int, b: int)``,
    where the parameters make the schema. It may be ``async``, and asks for the Frame or not.
    """

    input_schema: Any = None
    output_schema: Any = None
    task_support: Any = None
    read_only: Any = None
    destructive: Any = None
    idempotent: Any = None
    open_world: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolComponent(Component):
    """A tool, ready to be listed and called."""

    kind: ClassVar[str] = "tool"

    input: InputSchema
    output: OutputSchema | None = None
    task_support: TaskSupport = "forbidden"
    param_headers: Any = ()
    """The arguments which an HTTP client repeats in headers."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self.input.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of its structured content, if it promises any."""
        return None if self.output is None else self.output.schema

    def validate_input(self, arguments: dict[str, Any]) -> Any:
        """What its handler is given for ``arguments``; raises ArgumentsInvalid."""
        return self.input.validate(arguments)

    def validate_output(self, value: Any) -> Any:
        """The structured content which ``value`` is; raises OutputInvalid."""
        return value if self.output is None else self.output.dump(value)

    def descriptor(self) -> dict[str, Any]:
        """How it is listed, in the words of the newest revision."""
        may_be_task = self.task_support != "forbidden"
        return self._describe(
            description=self.listed_description,
            inputSchema=self.input.schema,
            outputSchema=self.output_schema,
            execution={"taskSupport": self.task_support} if may_be_task else None,
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> ToolComponent:
        """The tool which ``spec`` describes; raises ConfigurationError.

        Its members are the options of ``tool_component`` and ``handler``, a function at the top
        of a module, or its dotted path. Without one the server has to answer the calls.
        """
        return _from_spec(canonical(spec))


class ToolOptions(Options, total=False):
    """What can be said of a tool where it is registered."""

    input_schema: type[BaseModel] | Json | None
    output_schema: Any
    """A JSON Schema, or a type which pydantic knows. Else the return annotation says it."""
    annotations: Json | None
    task_support: TaskSupport | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None


def tool_component(target: Any, **options: Unpack[ToolOptions]) -> ToolComponent:
    """The tool which a function, a Tool class or an instance of one is.

    What is given here wins over the attributes of the class. Raises ConfigurationError, which
    names the remedy.
    """
    return _declared(opened(target, Tool, "execute", options, ToolOptions))


def _declared(declaration: ComponentSource) -> ToolComponent:
    asked = declaration.signature()
    taken, call = _taken(declaration, asked)
    return ToolComponent(
        name=declaration.name(),
        invoke=call.invoke,
        is_async=call.is_async,
        takes_frame=call.takes_frame,
        complete=declaration.completers(taken.schema.get("properties", ()), None),
        input=taken,
        output=_promised(declaration, asked),
        **_own_fields(declaration, taken),
        **declaration.common(),
    )


def _taken(declaration: ComponentSource, asked: Signature) -> tuple[InputSchema, CallConvention]:
    """What the tool is given, and how: as one value when its schema is declared."""
    declared = declaration.get("input_schema")
    if declared is None:
        declared = getattr(declaration.author, "Input", None)
    if declared is not None:
        call = signature.by_value(declaration.function, asked)
        return schemas.input_of(declared, declaration.where), call
    if any(
        parameter.name == "params" and not parameter.is_annotated for parameter in asked.parameters
    ):
        raise ConfigurationError(
            f"{declaration.where} takes params, but nothing says what they are: declare Input or "
            "input_schema, or let it take each argument under its name"
        )
    if asked.rest:
        raise ConfigurationError(
            f"{declaration.where} takes any keyword, but clients are told its arguments: name "
            "them, or declare input_schema"
        )
    return schemas.input_of_signature(asked), signature.by_keywords(declaration.function, asked)


def _promised(declaration: ComponentSource, asked: Signature) -> OutputSchema | None:
    declared = declaration.get("output_schema")
    if declared is not None:
        return schemas.output_of(declared, declaration.where)
    return schemas.output_of_annotation(asked.returns, declaration.where)


def _own_fields(declaration: ComponentSource, taken: InputSchema) -> dict[str, Any]:
    """The fields which a tool has beside those of every component and its handler."""
    return {
        "annotations": _annotations(declaration),
        "task_support": _task_support(declaration),
        "param_headers": _param_headers(taken.schema, declaration.where),
    }


def _annotations(declaration: ComponentSource) -> Json | None:
    hints = {wire: declaration.get(option) for option, wire in HINTS.items()}
    said = {wire: hint for wire, hint in hints.items() if hint is not None}
    return {**(declaration.get("annotations") or {}), **said} or None


def _task_support(declaration: ComponentSource) -> TaskSupport:
    support = declaration.get("task_support") or "forbidden"
    if support not in TASK_SUPPORT:
        raise ConfigurationError(
            f"The task_support of {declaration.where} is {support!r}: write "
            '"forbidden", "optional" or "required"'
        )
    return cast("TaskSupport", support)


def _param_headers(schema: Json, where: str) -> Any:
    try:
        return headers.param_headers(schema)
    except ValueError as error:
        raise ConfigurationError(f"A header of {where}: {error}") from error


@lru_cache(maxsize=SPECS_KEPT)
def _from_spec(spec: bytes) -> ToolComponent:
    nothing = {"type": "object", "additionalProperties": False}
    return restored(spec, tool_component, _unanswered, input_schema=nothing)


def _unanswered(params: Any) -> None:
    """Stands for the handler of a tool whose calls the server answers."""
