"""Tools: functions that a model may call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol, Unpack

from pydantic import BaseModel

from django_mcp.core.components import declaration, outputs, serializers, stored
from django_mcp.core.components.arguments import file_names
from django_mcp.core.components.base import (
    OPTIONS,
    Component,
    ConfigurationError,
    UnserializableResult,
    explain,
)
from django_mcp.core.components.declaration import ComponentAttributes, ComponentSource, Options
from django_mcp.core.components.outputs import OutputSchema
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.signature import CallConvention
from django_mcp.core.protocol import headers
from django_mcp.core.protocol.errors import Json

TaskSupport = Literal["forbidden", "optional", "required"]
Approvers = str | Callable[[Any, Any], str | bool | None | Awaitable[str | bool | None]]
"""The permission of those who may approve a call, or a function of the validated arguments and the
Frame that returns it, and None or False for a call that needs no approval."""

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
"""The options, and the annotations that they are listed as."""

HOST_META = {
    "always_load": "anthropic/alwaysLoad",
    "search_hint": "anthropic/searchHint",
    "max_result_chars": "anthropic/maxResultSizeChars",
    "requires_user_interaction": "anthropic/requiresUserInteraction",
}
"""The options, and the members of ``_meta`` where hosts read them."""
FILE_PARAMS = "openai/fileParams"
"""The member of ``_meta`` with the names of the arguments for which hosts send files."""
MAX_RESULT_CHARS = 500_000
"""The most that a host accepts."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who has to approve a call before it runs: the option ``approval`` of a tool.

    ``permission`` names the approvers, or is a function of the validated arguments and the Frame
    that returns it, or None for no approval. With ``four_eyes``, the approver is somebody else than
    the caller. ``subject`` returns the object that the call is about, which the pages show.
    """

    permission: Approvers
    four_eyes: bool = field(default=False, kw_only=True)
    subject: Callable[[Any], Any] | None = field(default=None, kw_only=True)


class ViewOption(Protocol):
    """The option ``ui`` of a tool, which the functions of ``django_mcp.ui`` return."""

    uri: str


class Tool(ComponentAttributes):
    """A tool written as a class: derive from it and write ``execute``.

    With an inner pydantic model ``Input``, or an ``input_schema``, write ``execute(self, params,
    frame)``; otherwise the parameters define the schema: ``execute(self, a: int, b: int)``. It may
    be ``async``; the Frame is optional.
    """

    input_schema: Any = None
    output_schema: Any = None
    annotations: Any = None
    task_support: Any = None
    task_after: Any = None
    read_only: Any = None
    destructive: Any = None
    idempotent: Any = None
    open_world: Any = None
    approval: Any = None
    log_arguments: Any = None
    answer_within: Any = None
    always_load: Any = None
    search_hint: Any = None
    max_result_chars: Any = None
    requires_user_interaction: Any = None
    ui: Any = None
    app_only: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolComponent(Component):
    """A tool of a server: its descriptor, and how it is called."""

    kind: ClassVar[str] = "tool"
    input: InputSchema
    output: OutputSchema | None = None
    param_headers: Any = ()
    """The arguments that an HTTP client repeats in headers."""
    search_hint: str | None = None
    """Words that ``find_tools`` finds it by, in addition to its name and description."""

    @property
    def reads_only(self) -> bool:
        return self.annotations is not None and self.annotations.get("readOnlyHint") is True

    @property
    def input_schema(self) -> dict[str, Any]:
        return self.input.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return None if self.output is None else self.output.schema

    def validate_input(self, arguments: dict[str, Any]) -> Any:
        return self.input.validate(arguments)

    def validate_output(self, value: Any) -> Any:
        """The structured content of ``value``; raises InvalidOutput."""
        return value if self.output is None else self.output.dump(value)

    def descriptor(self) -> dict[str, Any]:
        may_be_text = any(option.answers_with_text for option in self.declared_options)
        return self._describe(
            description=self.listed_description,
            inputSchema=self.input.schema,
            outputSchema=None if may_be_text else self.output_schema,
        )

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> ToolComponent:
        """The tool with the options and the ``handler`` in ``spec``; raises ConfigurationError.

        ``handler`` is a function or its path. Without it, a hook of the server answers the calls.
        """
        return _from_spec(stored.canonical(spec))


class ToolOptions(Options, total=False):
    input_schema: type[BaseModel] | Json | None
    output_schema: Any
    """A JSON Schema, or a type that pydantic supports; by default the return annotation."""
    task_support: TaskSupport | None
    task_after: float | None
    """Seconds after which a running call is continued as a task, where the server decides; 0: at
    once. By default at once for "required", and after 5 seconds for "optional"."""
    annotations: Json | None
    """Annotations for clients besides the hints, such as ``{"category": "billing"}``; any keys."""
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    approval: Approval | Approvers | None
    """A call waits until somebody with this permission approves it; see ``Approval``."""
    log_arguments: Sequence[str] | None
    """The arguments whose values the app of the call log may store; none by default."""
    answer_within: float | None
    """Seconds within which a client that knows no tasks, or cannot be asked, is answered: with the
    result, or with a text that says how to go on."""
    always_load: bool | None
    """List it even if the server or the host lists few tools, and lets models search the others."""
    search_hint: str | None
    """Words that a search finds it by, in addition to its name and description."""
    max_result_chars: int | None
    """The characters of a result that a host should pass on to the model without cutting it."""
    requires_user_interaction: bool | None
    """Have the host ask its user before each call, whatever they have allowed before. Only some
    hosts do so: it is no approval."""
    ui: ViewOption | None
    """The view where hosts show its results: ``template_view(…)`` of ``django_mcp.ui``."""
    app_only: bool | None
    """Hosts let views call it, and do not show it to models. It needs permissions like any tool:
    the server cannot tell who calls."""


def tool_component(target: Any, **options: Unpack[ToolOptions]) -> ToolComponent:
    """The component of a function, a Tool class or an instance of one."""
    source = declaration.read(target, Tool, "execute", options, ToolOptions)
    arguments, call = _read_input(source)
    common = _with_host_meta(source, source.common(), arguments.schema)
    with explain(f"A header of {source.where}"):
        param_headers = headers.param_headers(arguments.schema)
    output = None
    if (declared := source.get("output_schema")) is not None:
        output = outputs.output_of(declared, source.where)
    elif (returned := outputs.structured_type(source.signature.returns)) is not None:
        output = outputs.output_of_type(returned, source.where)
    return ToolComponent(
        name=source.name(),
        complete=source.completers(arguments.schema.get("properties", ())),
        input=arguments,
        output=output,
        annotations=_annotations(source) or None,
        param_headers=param_headers,
        always_load=bool(source.flag("always_load"))
        or any(OPTIONS.of(ToolComponent.kind)[name].always_load for name in common["options"]),
        search_hint=source.checked("search_hint", str, "write some words"),
        handler=call.handler,
        invoke=call.invoke,
        is_async=call.is_async,
        takes_frame=call.takes_frame,
        **common,
    )


def _read_input(source: ComponentSource) -> tuple[InputSchema, CallConvention]:
    declared = source.input_model("input_schema")
    parameters = source.signature.parameters
    takes_params = any(item.name == "params" and not item.is_annotated for item in parameters)
    if declared is None and takes_params:
        raise ConfigurationError(
            f"{source.where} takes params, but no schema of them is declared: declare Input or "
            "input_schema, or let it take each argument under its name"
        )
    return source.read_input(
        declared,
        "the input schema lists its arguments: name them, or declare input_schema",
        strict_numbers=True,
    )


def _annotations(source: ComponentSource) -> dict[str, Any]:
    """The annotations of the author, and the hints under the names of the protocol."""
    declared = source.get("annotations")
    if declared is not None and not isinstance(declared, Mapping):
        raise ConfigurationError(f"The annotations of {source.where} are {declared!r}: give a dict")
    try:
        annotations: dict[str, Any] = serializers.jsonable(dict(declared or {}))
    except UnserializableResult as error:
        raise ConfigurationError(
            f"The annotations of {source.where} are no JSON: {error}"
        ) from error
    for option, member in HINTS.items():
        hint = source.flag(option)
        annotated = annotations.get(member)
        if annotated is not None and not isinstance(annotated, bool):
            raise ConfigurationError(
                f"{member} in the annotations of {source.where} is {annotated!r}: write True or "
                "False"
            )
        if None not in (hint, annotated) and hint != annotated:
            raise ConfigurationError(
                f"{source.where} has {option}={hint!r} and {member} {annotated!r} in its "
                "annotations: write one of them"
            )
        if hint is not None:
            annotations[member] = hint
    return annotations


def _with_host_meta(
    source: ComponentSource, common: dict[str, Any], schema: Json
) -> dict[str, Any]:
    """Add the members of ``_meta`` for hosts; the author's own ``meta`` overrides them."""
    options = {option: source.get(option) for option in HOST_META}
    characters = options["max_result_chars"]
    is_count = type(characters) is int and 0 < characters <= MAX_RESULT_CHARS
    if characters is not None and not is_count:
        raise ConfigurationError(
            f"max_result_chars of {source.where} is {characters!r}: write a number of at most "
            f"{MAX_RESULT_CHARS:,}"
        )
    source.flag("requires_user_interaction")
    host_meta = {HOST_META[option]: value for option, value in options.items() if value}
    if files := file_names(schema):
        host_meta[FILE_PARAMS] = files
    if not host_meta:
        return common
    own_meta = common["meta"] or {}
    return {**common, "meta": {**host_meta, **own_meta}}


@lru_cache(maxsize=stored.CACHED_SPECS)
def _from_spec(spec: bytes) -> ToolComponent:
    """The tool of a spec; one without a handler and a schema takes no arguments."""
    no_arguments = {"type": "object", "additionalProperties": False}
    return stored.restore(spec, tool_component, stored.placeholder, input_schema=no_arguments)
