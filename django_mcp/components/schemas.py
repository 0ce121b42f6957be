"""The JSON Schemas of a handler's input and output, made from its annotations, and validation.

Everything is compiled once, at registration; a call uses ``InputSchema.validate`` and
``OutputSchema.dump``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from types import NoneType, new_class
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from django_mcp.components import argument_types, converters
from django_mcp.components.arguments import (
    adapted,
    decode_containers,
    non_strings,
)
from django_mcp.components.arguments import repaired as arguments_with_repairs
from django_mcp.components.base import (
    ConfigurationError,
    InvalidArguments,
    InvalidOutput,
    LargeArguments,
    explain,
)
from django_mcp.components.responses import Response
from django_mcp.components.serialization import (
    NOT_SERIALIZABLE,
    encoded,
    json_fallback,
    jsonable,
    not_serializable,
)
from django_mcp.components.signature import UNIONS, Parameter, Signature, is_frame
from django_mcp.protocol.content import CONTENT, Message
from django_mcp.protocol.errors import Json, McpError, ToolError
from django_mcp.protocol.schema import compiler
from django_mcp.protocol.schema.steps import MAX_STEPS, TooManySteps

UNSTRUCTURED = (None, NoneType, str, bytes, Any, object, NoReturn, inspect.Parameter.empty)
"""Return annotations without structured content."""
PROTOCOL_TYPES = (*CONTENT, Message, Response, McpError, ToolError)
"""Classes whose instances are results or parts of one: they have no output schema."""
SEQUENCES = (list, tuple, Sequence, Iterable, Collection)
MAX_PROBLEMS = 8
MAX_LISTED_PROBLEMS = 1_000
"""pydantic takes a microsecond to describe each of them, and describes all or none."""
STEPS_IN_LOOP = 1_000
"""Steps of validation by a JSON Schema that take the event loop some milliseconds."""
MAX_LENGTH = 200
MAX_REPAIRS = 4
"""Validations after repairs: one may show what else has to be repaired."""


@dataclass(frozen=True, slots=True)
class InputSchema:
    schema: dict[str, Any]
    validate: Callable[[dict[str, Any]], Any]
    """The arguments of the handler; raises InvalidArguments, and LargeArguments instead of holding
    the event loop for long."""
    validate_large: Callable[[dict[str, Any]], Any] | None = None
    """The same, for a thread; raises InvalidArguments. None where ``validate`` always takes
    little time."""

    def map(self, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> InputSchema:
        """The same schema, with both functions changed."""
        large = None if self.validate_large is None else change(self.validate_large)
        return replace(self, validate=change(self.validate), validate_large=large)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    schema: dict[str, Any]
    dump: Callable[[Any], Any]
    """The value as JSON-compatible objects; raises InvalidOutput or UnserializableResult."""
    encode: Callable[[Any], bytes]
    """The value as JSON; raises what ``dump`` raises."""
    check: Callable[[Any], Any]
    """The value, which is JSON-compatible, if it matches the schema; raises InvalidOutput."""


class UntitledJsonSchema(GenerateJsonSchema):
    """JSON Schema without the titles that pydantic derives from the names of fields."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def int_schema(self, schema: Any) -> dict[str, Any]:
        return _or_digits(schema, super().int_schema(schema), r"^[-+]?[0-9]+$")

    def float_schema(self, schema: Any) -> dict[str, Any]:
        number = r"^[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?$"
        return _or_digits(schema, super().float_schema(schema), number)


def _or_digits(schema: Any, listed: dict[str, Any], pattern: str) -> dict[str, Any]:
    """A number, or its digits as a string where ``Field(strict=False)`` says so."""
    if schema.get("strict") is not False:
        return listed
    return {"anyOf": [listed, {"type": "string", "pattern": pattern}]}


def input_of_signature(
    signature: Signature, *, more: Iterable[str] = (), strict_numbers: bool = False
) -> InputSchema:
    """The input of a function; ``more`` names strings that it takes as ``**kwargs``.

    With ``strict_numbers``, a string is no number, as in JSON.
    """
    variables = [Parameter(name, str, inspect.Parameter.empty) for name in more]
    parameters = (*signature.parameters, *variables)
    if not parameters:
        return _no_input()
    whole = _input_of(parameters, signature.where, strict_numbers)
    for each in signature.parameters:
        if each.description is not None:
            whole.schema["properties"][each.name].setdefault("description", each.description)
    return whole


@cache
def _no_input() -> InputSchema:
    """The input without arguments, shared: a model and its schema take a millisecond."""
    return _input_of((), "nothing", strict_numbers=False)


def _input_of(parameters: Sequence[Parameter], where: str, strict_numbers: bool) -> InputSchema:
    parameters = [p._replace(annotation=adapted(p.annotation)) for p in parameters]
    names = {_field_name(p.name): p.name for p in parameters}
    fields: dict[str, Any] = {_field_name(p.name): _field(p) for p in parameters}
    config = ConfigDict(extra="forbid", protected_namespaces=())
    what = f"A parameter of {where}"
    with _supported_types(what, *(p.annotation for p in parameters)):
        model = create_model("Arguments", __config__=config, **fields)
        whole = _input_of_model(model, what, strict_numbers)
    if all(field == name for field, name in names.items()):
        return whole.map(lambda validate: lambda arguments: validate(arguments).__dict__)
    return whole.map(
        lambda validate: (
            lambda arguments: {names[f]: value for f, value in validate(arguments).__dict__.items()}
        )
    )


def _declared_model(model: type[BaseModel], strict_numbers: bool) -> InputSchema:
    """A model; unknown arguments are rejected unless its configuration has ``extra``."""
    if "extra" not in model.model_config:
        same = {name: getattr(model, name) for name in ("__module__", "__qualname__", "__doc__")}
        model = new_class(model.__name__, (model,), {"extra": "forbid"}, lambda ns: ns.update(same))
    what = f"A field of {model.__qualname__}"
    with _supported_types(what):
        return _input_of_model(model, what, strict_numbers)


def _declared_schema(schema: Json, where: str) -> InputSchema:
    """A JSON Schema, which is enforced; the handler takes a dict."""
    whole = {**schema} if "type" in schema else {"type": "object", **schema}
    if whole["type"] != "object":
        raise ConfigurationError(
            f"The input schema of {where} describes a {whole['type']}, but arguments are an "
            'object: write {"type": "object", "properties": {…}}'
        )
    validator = _compile(whole, where)
    containers = {*non_strings(whole)}

    def validate(arguments: dict[str, Any], max_steps: int = STEPS_IN_LOOP) -> dict[str, Any]:
        try:
            problems = validator.problems(arguments, max_steps=max_steps)
            if problems and (repaired := decode_containers(arguments, containers)) is not None:
                arguments = repaired
                problems = validator.problems(arguments, max_steps=max_steps)
        except TooManySteps:
            raise LargeArguments from None
        if problems:
            raise InvalidArguments(problems)
        return compiler.with_defaults(whole, arguments)

    return InputSchema(whole, validate, partial(validate, max_steps=MAX_STEPS))


def input_of(declared: Any, where: str, *, strict_numbers: bool = False) -> InputSchema:
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return _declared_model(declared, strict_numbers)
    if isinstance(declared, Mapping):
        return _declared_schema(declared, where)
    raise ConfigurationError(
        f"The input of {where} is declared as {declared!r}: give a pydantic model or a dict "
        "with a JSON Schema"
    )


def output_of_type(kind: Any, where: str) -> OutputSchema:
    """A type that pydantic supports; a model is also filled from the attributes of a row."""
    with _supported_types(f"The return value of {where}", kind):
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema(mode="serialization", schema_generator=UntitledJsonSchema)
    validate = adapter.validator.validate_python
    to_python = partial(adapter.serializer.to_python, mode="json")

    def validating(serialize: Callable[..., Any]) -> Callable[[Any], Any]:
        def validate_and_serialize(value: Any) -> Any:
            try:
                try:
                    valid = validate(value, from_attributes=True)
                except ValidationError:
                    valid = _validated_again(validate, value)
                return serialize(valid, by_alias=True, fallback=json_fallback)
            except ValidationError as error:
                raise InvalidOutput(describe_errors(error)) from error
            except NOT_SERIALIZABLE as error:
                raise not_serializable(value, error) from error

        return validate_and_serialize

    # Compiled at its first use: only a handler that builds a Response needs it.
    check = cache(partial(_check, schema, where))
    dump, encode = validating(to_python), validating(adapter.serializer.to_json)
    return OutputSchema(schema, dump, encode, lambda value: check()(value))


def _validated_again(validate: Callable[..., Any], value: Any) -> Any:
    """An invalid value, with the values of other types in it converted."""
    converted = converters.deeply_converted(value, rows=True)
    return validate(converted, from_attributes=True)


def output_of(declared: Any, where: str) -> OutputSchema:
    """A JSON Schema, which is enforced, or a type."""
    if not isinstance(declared, Mapping):
        return output_of_type(declared, where)
    schema = dict(declared)
    check = _check(schema, where)

    def dump(value: Any) -> Any:
        return check(jsonable(converters.deeply_converted(value)))

    return OutputSchema(schema, dump, lambda value: encoded(dump(value)), check)


def describe_errors(error: ValidationError, accepted: Sequence[str] = ()) -> str:
    """One clause for each error, without the values."""
    problems = _problems(error)
    if not problems:
        return f"there are {error.error_count()} problems, such as unknown members"
    clauses = [_clause(problem, accepted) for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        clauses.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return "; ".join(clauses)


def _clause(problem: Any, accepted: Sequence[str]) -> str:
    path = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "missing":
            text = "required, but missing"
        case "extra_forbidden" if len(problem["loc"]) == 1:
            text = f"unknown argument (accepted: {', '.join(accepted) or 'none'})"
        case "extra_forbidden":
            text = "unknown here"
        case _:
            text = problem["msg"]
    return f"{_short(path)}: {_short(text)}" if path else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def _field_name(name: str) -> str:
    """A valid name of a field of a pydantic model; its alias is the parameter's name."""
    return f"arg_{name}" if name.startswith("_") or hasattr(BaseModel, name) else name


def _field(parameter: Parameter) -> Any:
    kind = parameter.annotation if parameter.is_annotated else Any
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    if _field_name(parameter.name) != parameter.name:
        kind = Annotated[kind, Field(alias=parameter.name)]
    return (kind, default)


def _input_of_model(model: type[BaseModel], what: str, strict_numbers: bool) -> InputSchema:
    """The input of a model; ``what`` begins the message about a type that is refused."""
    schema = model.model_json_schema(schema_generator=UntitledJsonSchema)
    # The schema of a recursive model is a reference, but the root must be an object.
    if reference := schema.pop("$ref", None):
        schema = {**schema["$defs"][reference.rpartition("/")[2]], **schema}
    schema = {"type": "object", "properties": {}, **schema}
    schema.pop("title", None)
    accepted = tuple(schema.get("properties", ()))
    declared: Any = model.__pydantic_core_schema__
    validation = _Validation(declared, what, strict_numbers, accepted)
    return InputSchema(schema, validation.in_loop, validation.in_thread)


class _Validation:
    """Validates the arguments of one component: small ones in the event loop, others in a thread.

    It stops at the first wrong item of a collection. If the arguments are few, they are then
    validated once more to describe every error.
    """

    def __init__(
        self, declared: Any, what: str, strict_numbers: bool, accepted: Sequence[str]
    ) -> None:
        argument_types.check(declared, what)
        core = argument_types.prepared(declared, strict_numbers=strict_numbers)
        types = argument_types.read(core)
        self._accepted = accepted
        self._is_small = types.small_enough()
        failing_fast = argument_types.prepared(core, fail_fast=True)
        self._validate = argument_types.validator_of(failing_fast).validate_python
        if types.has_chosen_hash:
            self._validate = partial(_validate_few_members, self._validate)
        # Compiled for the first invalid arguments.
        self._validate_completely = cache(partial(_complete_validator, core))

    def in_loop(self, arguments: dict[str, Any]) -> Any:
        """The valid arguments; raises InvalidArguments, or LargeArguments: use ``in_thread``."""
        if not self._is_small(arguments):
            raise LargeArguments
        try:
            return self._validate(arguments)
        except ValidationError as error:
            return self._repaired(arguments, error, self._validate_if_small)

    def in_thread(self, arguments: dict[str, Any]) -> Any:
        """The valid arguments; raises InvalidArguments."""
        try:
            return self._validate(arguments)
        except ValidationError as error:
            return self._repaired(arguments, error, self._validate)

    def _validate_if_small(self, arguments: dict[str, Any]) -> Any:
        """Validate repaired arguments, of which there may be more."""
        if not argument_types.is_small(arguments, argument_types.MAX_NODES):
            raise LargeArguments
        return self._validate(arguments)

    def _repaired(
        self,
        arguments: dict[str, Any],
        error: ValidationError,
        validate: Callable[[dict[str, Any]], Any],
    ) -> Any:
        """Validate repaired arguments; raises InvalidArguments if they are not valid either."""
        for _ in range(MAX_REPAIRS):
            repaired = arguments_with_repairs(arguments, _problems(error))
            if repaired is None:
                break
            try:
                return validate(repaired)
            except ValidationError as other:
                arguments = repaired
                error = other
        error = self._with_every_problem(arguments, error)
        raise InvalidArguments(describe_errors(error, self._accepted)) from error

    def _with_every_problem(
        self, arguments: dict[str, Any], error: ValidationError
    ) -> ValidationError:
        if argument_types.is_small(arguments, argument_types.MAX_NODES):
            try:
                self._validate_completely()(arguments)
            except ValidationError as complete:
                return complete
        return error


def _validate_few_members(
    validate: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]
) -> Any:
    if argument_types.has_many_members(arguments):
        raise InvalidArguments(
            f"a list or an object may have at most {argument_types.MAX_WITH_CHOSEN_HASH} members "
            "here"
        )
    return validate(arguments)


def _complete_validator(core: Any) -> Callable[[dict[str, Any]], Any]:
    return argument_types.validator_of(core).validate_python


def _problems(error: ValidationError) -> Sequence[Any]:
    """What pydantic says about the problems; nothing of so many that listing them takes long."""
    if error.error_count() > MAX_LISTED_PROBLEMS:
        return ()
    return error.errors(include_url=False, include_context=False, include_input=False)


def _compile(schema: Json, where: str) -> compiler.Validator:
    with explain(f"A schema of {where} cannot be used"):
        return compiler.compile(schema)


def _check(schema: Json, where: str) -> Callable[[Any], Any]:
    validator = _compile(schema, where)

    def check(value: Any) -> Any:
        if problems := validator.problems(value, name="the value", max_steps=sys.maxsize):
            raise InvalidOutput(problems)
        return value

    return check


def structured_type(annotation: Any) -> Any:
    """The type of the structured content in a return annotation, or None."""
    while hasattr(annotation, "__value__"):
        annotation = annotation.__value__
    if get_origin(annotation) in UNIONS:
        return _of_union(get_args(annotation))
    if _is_with_frame(annotation):
        return structured_type(get_args(annotation)[0])
    if converters.has_serializer(annotation):
        return None
    return None if _is_unstructured(annotation) else annotation


def _of_union(members: tuple[Any, ...]) -> Any:
    values = [get_args(m)[0] if _is_with_frame(m) else m for m in members]
    described = tuple(dict.fromkeys(m for m in values if not _is_protocol_type(m)))
    if Any in described or all(_is_unstructured(m) for m in described):
        return None
    return Union[described]  # noqa: UP007 - its members are known at run time only


def _is_with_frame(annotation: Any) -> bool:
    """Whether it is a value with a Frame: ``tuple[Ticket, Frame]``."""
    members = get_args(annotation)
    return get_origin(annotation) is tuple and len(members) == 2 and is_frame(members[1])


def _is_unstructured(annotation: Any) -> bool:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(bare) is None:
        return _is_protocol_type(bare) or any(bare is each for each in UNSTRUCTURED)
    return get_origin(bare) in SEQUENCES and any(_is_protocol_type(m) for m in get_args(bare))


def _is_protocol_type(annotation: Any) -> bool:
    """Whether it is the Frame, a class of PROTOCOL_TYPES, or a union that contains one."""
    members = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    classes = [member for member in members if isinstance(member, type)]
    return is_frame(annotation) or any(issubclass(each, PROTOCOL_TYPES) for each in classes)


@contextmanager
def _supported_types(what: str, *annotations: Any) -> Iterator[None]:
    problem = next(filter(None, map(converters.unsupported_class, annotations)), None)
    if problem is not None:
        raise ConfigurationError(f"{what} cannot be sent or received as JSON: {problem}")
    try:
        yield
    except (PydanticUserError, SchemaError, NameError, TypeError) as error:
        raise ConfigurationError(
            f"{what} has a type without a JSON form: use types of Python, dataclasses or pydantic "
            f"models; objects of Django are on the Frame. pydantic says: {error}"
        ) from error
