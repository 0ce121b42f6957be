"""What goes into a handler and what comes out: as JSON Schema for clients, checked for handlers.

Everything is compiled once, at registration; what remains for a call are ``Input.validate``
and ``Output.dump``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import NoneType, new_class
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from django_mcp.components.base import ConfigurationError, InvalidArguments, InvalidOutput
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

UNREADABLE = (PydanticUserError, SchemaError, NameError, TypeError)
UNSTRUCTURED = frozenset(
    {None, NoneType, str, bytes, Any, object, NoReturn, inspect.Parameter.empty}
)
"""Return annotations that promise no structure."""
SPOKEN = (*CONTENT, Message, Response, McpError, ToolError)
"""Classes of which a returned value says itself what it is."""
SEQUENCES = (list, tuple, Sequence, Iterable, Collection)
MOST_PROBLEMS = 8
LONGEST = 200


@dataclass(frozen=True, slots=True)
class InputSchema:
    """What a handler wants: told to clients by ``schema``, read from what they send."""

    schema: dict[str, Any]
    validate: Callable[[dict[str, Any]], Any]
    """Raises ArgumentsInvalid."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """What a handler promises: told to clients by ``schema``, made from what it returns."""

    schema: dict[str, Any]
    dump: Callable[[Any], Any]
    """The value made of what JSON has; raises OutputInvalid or UnfitResult."""
    encode: Callable[[Any], bytes]
    """The same as JSON; raises what ``dump`` raises."""
    check: Callable[[Any], Any]
    """The value, which is JSON already, if it fits the schema; raises OutputInvalid."""


class _Methods(dict[str, Any]):
    """The methods of a generator of JSON Schema, by the type that each describes."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __missing__(self, described: str) -> Any:
        return getattr(self._generator, f"{described.replace('-', '_')}_schema")


class PlainSchema(GenerateJsonSchema):
    """JSON Schema without the titles which pydantic makes up from the names of fields."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def build_schema_type_to_method(self) -> Any:
        """By name and found when asked for, because pydantic would look all of them up each time.

        That is a third of what the schema of a small model takes.
        """
        return _Methods(self)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: the name says it already."""
        return False


# What goes in.


def input_of_signature(signature: Signature, *, more: Iterable[str] = ()) -> InputSchema:
    """The parameters of a function; ``more`` names strings that it takes as further keywords."""
    parameters = (
        *signature.parameters,
        *(Parameter(name, str, inspect.Parameter.empty) for name in more),
    )
    return _input_of(parameters, signature.where) if parameters else _input_of_nothing()


@cache
def _input_of_nothing() -> InputSchema:
    """What takes no arguments; one for all, since a model and its schema take a millisecond."""
    return _input_of((), "nothing")


def _input_of(parameters: Sequence[Parameter], where: str) -> InputSchema:
    fields = {_field_name(p.name): _field(p) for p in parameters}
    try:
        model = create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", protected_namespaces=()), **fields
        )
        schema = _schema_of_model(model)
    except UNREADABLE as error:
        raise _unreadable(f"A parameter of {where}", error) from error
    # The title and the docstring are those of a model which nobody wrote.
    schema.pop("title", None)
    read = _reader(model, schema)
    names = {_field_name(p.name): p.name for p in parameters}
    if all(field == name for field, name in names.items()):
        return InputSchema(schema, lambda arguments: read(arguments).__dict__)
    return InputSchema(
        schema,
        lambda arguments: {names[f]: value for f, value in read(arguments).__dict__.items()},
    )


def input_of_model(model: type[BaseModel]) -> InputSchema:
    """A pydantic model, which the handler is given an instance of.

    Arguments it does not have are refused, unless its configuration says something of ``extra``.
    """
    if "extra" not in model.model_config:
        model = new_class(model.__name__, (model,), {"extra": "forbid"}, _located_as(model))
    try:
        schema = _schema_of_model(model)
        schema.pop("title", None)
        return InputSchema(schema, _reader(model, schema))
    except UNREADABLE as error:
        raise _unreadable(f"A field of {model.__qualname__}", error) from error


def input_of_schema(schema: Json, where: str) -> InputSchema:
    """A JSON Schema written by hand, which is enforced; the handler is given a dict."""
    whole = {**schema} if "type" in schema else {"type": "object", **schema}
    if whole["type"] != "object":
        raise ConfigurationError(
            f"The input schema of {where} describes a {whole['type']}, but arguments are an "
            'object: write {"type": "object", "properties": {…}}'
        )
    validator = _compiled(whole, where)

    def validate(arguments: dict[str, Any]) -> dict[str, Any]:
        problems = validator.problems(arguments)
        if problems:
            raise InvalidArguments(problems)
        return compiler.with_defaults(whole, arguments)

    return InputSchema(whole, validate)


def input_of(declared: Any, where: str) -> InputSchema:
    """The input which is declared as a pydantic model or as a JSON Schema."""
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return input_of_model(declared)
    if isinstance(declared, Mapping):
        return input_of_schema(declared, where)
    raise ConfigurationError(
        f"The input of {where} is declared as {declared!r}: give a pydantic model or a dict "
        "with a JSON Schema"
    )


# What comes out.


def output_of_annotation(annotation: Any, where: str) -> OutputSchema | None:
    """What a return annotation promises; None for text, content, and whatever says nothing."""
    structure = structure_of(annotation)
    return None if structure is None else output_of_type(structure, where)


def output_of_type(kind: Any, where: str) -> OutputSchema:
    """A type known to pydantic; a model is filled from the attributes of a database row, too."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema(mode="serialization", schema_generator=PlainSchema)
    except UNREADABLE as error:
        raise _unreadable(f"What {where} returns", error) from error
    validate = adapter.validator.validate_python
    to_python = partial(adapter.serializer.to_python, mode="json")

    def saying(serialize: Callable[..., Any]) -> Callable[[Any], Any]:
        def say(value: Any) -> Any:
            try:
                fitting = validate(value, from_attributes=True)
                return serialize(fitting, by_alias=True, fallback=json_fallback)
            except ValidationError as error:
                raise InvalidOutput(sentence(error)) from error
            except NOT_SERIALIZABLE as error:
                raise not_serializable(value, error) from error

        return say

    check = _late_check(schema, where)
    return OutputSchema(schema, saying(to_python), saying(adapter.serializer.to_json), check)


def output_of_schema(schema: Json, where: str) -> OutputSchema:
    """A JSON Schema written by hand, which is enforced."""
    whole = dict(schema)
    check = _check(whole, where)

    def dump(value: Any) -> Any:
        return check(jsonable(value))

    return OutputSchema(whole, dump, lambda value: encoded(dump(value)), check)


def output_of(declared: Any, where: str) -> OutputSchema:
    """The output which is declared as a type or as a JSON Schema."""
    if isinstance(declared, Mapping):
        return output_of_schema(declared, where)
    return output_of_type(declared, where)


# Saying what did not fit.


def sentence(error: ValidationError, accepted: Sequence[str] = ()) -> str:
    """What did not fit, one clause for each problem; values are not repeated."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    clauses = [_clause(problem, accepted) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        clauses.append(f"and {len(problems) - MOST_PROBLEMS} more")
    return "; ".join(clauses)


def _clause(problem: Any, accepted: Sequence[str]) -> str:
    path = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "missing":
            said = "required, but missing"
        case "extra_forbidden" if len(problem["loc"]) == 1:
            said = f"unknown argument (accepted: {', '.join(accepted) or 'none'})"
        case "extra_forbidden":
            said = "unknown here"
        case _:
            said = problem["msg"]
    return f"{_short(path)}: {_short(said)}" if path else _short(said)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# The steps of the above.


def _field_name(name: str) -> str:
    """A name which a pydantic model lets a field have; clients know the alias."""
    return f"arg_{name}" if name.startswith("_") or hasattr(BaseModel, name) else name


def _field(parameter: Parameter) -> Any:
    kind = parameter.annotation if parameter.is_annotated else Any
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    if _field_name(parameter.name) != parameter.name:
        kind = Annotated[kind, Field(alias=parameter.name)]
    return (kind, default)


def _reader(model: type[BaseModel], schema: Json) -> Callable[[dict[str, Any]], Any]:
    # The compiled validator itself: two layers fewer than model_validate, for every call.
    validate = model.__pydantic_validator__.validate_python
    accepted = tuple(schema.get("properties", ()))

    def read(arguments: dict[str, Any]) -> Any:
        try:
            return validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(sentence(error, accepted)) from error

    return read


def _schema_of_model(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=PlainSchema)
    # A model which refers to itself is described by a reference, but the root must be an object.
    if reference := schema.pop("$ref", None):
        schema = {**schema["$defs"][reference.rpartition("/")[2]], **schema}
    return {"type": "object", "properties": {}, **schema}


def _located_as(model: type) -> Callable[[dict[str, Any]], None]:
    return lambda namespace: namespace.update(
        __module__=model.__module__, __qualname__=model.__qualname__, __doc__=model.__doc__
    )


def _compiled(schema: Json, where: str) -> compiler.Validator:
    try:
        return compiler.compile(schema)
    except ValueError as error:
        raise ConfigurationError(f"A schema of {where} cannot be used: {error}") from error


def _check(schema: Json, where: str) -> Callable[[Any], Any]:
    validator = _compiled(schema, where)

    def check(value: Any) -> Any:
        problems = validator.problems(value, name="the value")
        if problems:
            raise InvalidOutput(problems)
        return value

    return check


def _late_check(schema: Json, where: str) -> Callable[[Any], Any]:
    """Compiled when first used: only a handler that builds its Response by hand needs it."""
    compiled = cache(lambda: _check(schema, where))
    return lambda value: compiled()(value)


def structure_of(annotation: Any) -> Any:
    """The type in a return annotation which clients are told of; None when there is none."""
    while hasattr(annotation, "__value__"):
        annotation = annotation.__value__
    if get_origin(annotation) in UNIONS:
        return _of_union(get_args(annotation))
    if _is_beside_frame(annotation):
        return structure_of(get_args(annotation)[0])
    return None if _is_unstructured(annotation) else annotation


def _of_union(members: tuple[Any, ...]) -> Any:
    meant = [get_args(m)[0] if _is_beside_frame(m) else m for m in members]
    told = tuple(dict.fromkeys(m for m in meant if not _is_spoken(m)))
    if Any in told or all(_is_unstructured(m) for m in told):
        return None
    return Union[told]  # noqa: UP007 - made of what is known at run time only


def _is_beside_frame(annotation: Any) -> bool:
    """Whether it is a value beside a Frame: ``tuple[Ticket, Frame]``."""
    members = get_args(annotation)
    return get_origin(annotation) is tuple and len(members) == 2 and is_frame(members[1])


def _is_unstructured(annotation: Any) -> bool:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(bare) is None:
        return _is_spoken(bare) or any(bare is nothing for nothing in UNSTRUCTURED)
    return get_origin(bare) in SEQUENCES and any(_speaks(m) for m in get_args(bare))


def _speaks(annotation: Any) -> bool:
    members = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    return any(_is_spoken(member) for member in members)


def _is_spoken(annotation: Any) -> bool:
    return is_frame(annotation) or (isinstance(annotation, type) and issubclass(annotation, SPOKEN))


def _unreadable(what: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"{what} has a type which pydantic does not know: {error} "
        "Use types that JSON can say, dataclasses or pydantic models; what comes from Django "
        "is on the Frame"
    )
