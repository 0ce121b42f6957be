"""The JSON Schema of a handler's input, made from its annotations, and its validation.

Everything is compiled once, at registration; a call uses ``InputSchema.validate``. What a model
reads of invalid arguments is in ``invalid_arguments.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from types import new_class
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, core_schema

from django_mcp.core import private
from django_mcp.core.components import argument_size, argument_types, serializers
from django_mcp.core.components.arguments import (
    CONVERSIONS,
    adapted,
    base64_schema,
    converting,
    decode_containers,
    non_strings,
    optional_names,
    without_nulls,
)
from django_mcp.core.components.arguments import repaired as arguments_with_repairs
from django_mcp.core.components.base import (
    ConfigurationError,
    explain,
)
from django_mcp.core.components.invalid_arguments import (
    InvalidArguments,
    LargeArguments,
    describe_errors,
    problems_of,
    unknown_arguments,
)
from django_mcp.core.components.signature import Parameter, Signature
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import compiler
from django_mcp.core.protocol.schema.shapes import accepts_null
from django_mcp.core.protocol.schema.steps import MAX_STEPS, TooManySteps

UNSUPPORTED = (RuntimeError, SchemaError, PydanticSerializationError)
"""What pydantic raises for a type without a schema, or a default or an example that is no JSON."""
STEPS_IN_LOOP = 1_000
"""Steps of validation by a JSON Schema that take the event loop some milliseconds."""
MAX_REPAIRS = 4
"""Validations after repairs: one may show what else has to be repaired."""


@dataclass(frozen=True, slots=True)
class InputSchema:
    """What a handler takes: its JSON Schema, and the functions that validate it."""

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

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        listed = super().bytes_schema(schema)
        return base64_schema(listed) if self.mode == "validation" else listed


def _or_digits(schema: Any, listed: dict[str, Any], pattern: str) -> dict[str, Any]:
    """A number, or its digits as a string where ``Field(strict=False)`` says so."""
    if schema.get("strict") is not False:
        return listed
    return {"anyOf": [listed, {"type": "string", "pattern": pattern}]}


def input_of_signature(
    signature: Signature, *, more: Iterable[str] = (), strict_numbers: bool = False
) -> InputSchema:
    """The input of a function; ``more`` names strings that it takes as ``**kwargs``.

    With ``strict_numbers``, a string is not accepted as a number, as in JSON.
    """
    variables = [Parameter(name, str, inspect.Parameter.empty) for name in more]
    parameters = (*signature.parameters, *variables)
    if not parameters:
        return _no_input()
    whole = _input_of(parameters, signature.where, strict_numbers)
    for parameter in signature.parameters:
        if parameter.description is not None:
            listed = whole.schema["properties"].get(_listed_name(parameter), {})
            listed.setdefault("description", parameter.description)
    return whole


def _listed_name(parameter: Parameter) -> str:
    """The name of a parameter in the schema: the alias of its field, if it has one."""
    for declared in (parameter.default, *getattr(parameter.annotation, "__metadata__", ())):
        if isinstance(declared, FieldInfo) and isinstance(declared.validation_alias, str):
            return declared.validation_alias
    return parameter.name


@cache
def _no_input() -> InputSchema:
    """The input without arguments, shared: a model and its schema take a millisecond."""
    return _input_of((), "nothing", strict_numbers=False)


def _input_of(parameters: Sequence[Parameter], where: str, strict_numbers: bool) -> InputSchema:
    fields = {p.name: _plain_field(p) for p in parameters}
    plain = {name: field for name, field in fields.items() if field is not None}
    if len(plain) == len(fields):
        whole = _input_of_fields(plain, strict_numbers)
    else:
        whole = _input_of_parameters(parameters, where, strict_numbers)
    # Any value is valid for a parameter without an annotation.
    may_be_anything = [p.name for p in parameters if not p.is_annotated and p.has_default]
    if may_be_anything:
        return whole.map(partial(_dropping_nulls, may_be_anything))
    return whole


def _input_of_parameters(
    parameters: Sequence[Parameter], where: str, strict_numbers: bool
) -> InputSchema:
    """The input of any parameters: pydantic makes a model of them."""
    parameters = [p._replace(annotation=adapted(p.annotation)) for p in parameters]
    names = _field_names([p.name for p in parameters])
    fields: dict[str, Any] = {}
    for field, parameter in zip(names, parameters, strict=True):
        kind = parameter.annotation if parameter.is_annotated else Any
        if field != parameter.name:
            kind = Annotated[kind, Field(alias=parameter.name)]
        fields[field] = (kind, parameter.default if parameter.has_default else ...)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    what = f"A parameter of {where}"
    with supported_types(what, *(p.annotation for p in parameters)):
        model = create_model("Arguments", __config__=config, **fields)
        whole = _input_of_model(model, what, strict_numbers)
    return whole.map(partial(_reading_fields, names))


Validate = Callable[[dict[str, Any]], Any]


def _dropping_nulls(names: Sequence[str], validate: Validate) -> Validate:
    """``validate``, but a null for one of ``names`` means that it is not given."""

    def read(arguments: dict[str, Any]) -> Any:
        without = without_nulls(arguments, names)
        return validate(arguments if without is None else without)

    return read


def _reading_fields(names: Mapping[str, str], validate: Validate) -> Validate:
    """``validate``, which returns a model, with its fields under the names of the parameters."""
    if all(field == name for field, name in names.items()):
        return lambda arguments: validate(arguments).__dict__

    def read(arguments: dict[str, Any]) -> dict[str, Any]:
        fields = validate(arguments).__dict__
        return {names[field]: value for field, value in fields.items()}

    return read


# A model of a few parameters and its schema take a millisecond. Most parameters have one of a few
# types: the core schemas and JSON Schemas of these are kept.

SHARED = frozenset(
    {
        "model", "dataclass", "enum", "typed-dict", "named-tuple", "call", "definitions",
        "definition-ref",
    }
)  # fmt: skip
"""Core schemas that are in ``$defs`` of the JSON Schema of pydantic: they need the whole."""
DEFAULTS = (bool, int, str, type(None))
"""Types of defaults that are in the schema as they are, and that no handler can change."""


class _Prepared(NamedTuple):
    """Core schemas to validate arguments: one stops at the first wrong item, one finds all."""

    failing_fast: Any
    complete: Any
    has_chosen_hash: bool

    @classmethod
    def of(cls, core: Any, what: str, *, strict_numbers: bool) -> _Prepared:
        """Raises ConfigurationError for a type that is refused; ``what`` begins the message."""
        core = argument_types.prepared(core, strict_numbers=strict_numbers, finite_numbers=True)
        argument_types.check(core, what)
        has_chosen_hash = argument_types.has_chosen_hash(core)
        return cls(argument_types.prepared(core, fail_fast=True), core, has_chosen_hash)

    def map(self, change: Callable[[Any], Any]) -> _Prepared:
        """The same, with both core schemas changed.

        Conversions come last: unlike other functions, they have a known cost.
        """
        return self._replace(failing_fast=change(self.failing_fast), complete=change(self.complete))


class _Plain(NamedTuple):
    """What pydantic makes of a parameter: its core schema, and its JSON Schema."""

    lax: _Prepared
    strict: _Prepared
    """With numbers that no string is."""
    schema: Mapping[str, Any]
    is_required: bool
    kinds: frozenset[str]


def _plain_field(parameter: Parameter) -> _Plain | None:
    """What pydantic makes of a parameter by itself; None where it needs a model of all."""
    kind = parameter.annotation if parameter.is_annotated else Any
    try:
        if not parameter.has_default:
            return _plain_type(kind, repr(kind))
        default = parameter.default
        if type(default) not in DEFAULTS:
            return None
        return _plain_default(kind, repr(kind), default, type(default).__name__)
    except TypeError:
        return None  # It cannot be kept.


@lru_cache(maxsize=512)
def _plain_default(kind: Any, spelled: str, default: Any, type_of_default: str) -> _Plain | None:
    """The same of a type with a default. Its type tells True from 1, which equal each other."""
    plain = _plain_type(kind, spelled)
    if plain is None:
        return None
    wrap = partial(core_schema.with_default_schema, default=default)
    return plain._replace(
        lax=plain.lax.map(wrap),
        strict=plain.strict.map(wrap),
        schema=dict(sorted({**plain.schema, "default": default}.items())),
        is_required=False,
    )


@lru_cache(maxsize=512)
def _plain_type(kind: Any, spelled: str) -> _Plain | None:
    """The same of a type. ``spelled`` tells unions apart that differ in their order only."""
    if any(map(_has_settings, getattr(kind, "__metadata__", ()))):
        return None
    try:
        changed = adapted(kind)
        if serializers.unsupported_class(changed) is not None:
            return None
        adapter: TypeAdapter[Any] = TypeAdapter(changed)
        core: Any = adapter.core_schema
        kinds = argument_types.kinds_in(core)
        if not SHARED.isdisjoint(kinds):
            return None
        schema = adapter.json_schema(schema_generator=UntitledJsonSchema)
        lax = _Prepared.of(core, spelled, strict_numbers=False)
        strict = _Prepared.of(core, spelled, strict_numbers=True)
    except (*UNSUPPORTED, NameError, TypeError, KeyError, ConfigurationError):
        return None  # With a model, the message about it names the parameter.
    return _Plain(lax, strict, schema, is_required=True, kinds=kinds)


def _has_settings(metadata: Any) -> bool:
    """Whether it has settings of a field, besides a description and bounds."""
    if not isinstance(metadata, FieldInfo):
        return False
    names = (metadata.alias, metadata.validation_alias, metadata.title, metadata.discriminator)
    return not metadata.is_required() or any(name is not None for name in names)


def _input_of_fields(fields: Mapping[str, _Plain], strict_numbers: bool) -> InputSchema:
    """The input of parameters of plain types; its validator returns a dict."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {**field.schema} for name, field in fields.items()},
        "additionalProperties": False,
    }
    if required := [name for name, field in fields.items() if field.is_required]:
        schema["required"] = required
    parts = {name: each.strict if strict_numbers else each.lax for name, each in fields.items()}
    failing_fast = {name: part.failing_fast for name, part in parts.items()}
    complete = {name: part.complete for name, part in parts.items()}
    prepared = _Prepared(
        _typed_dict(failing_fast, required),
        _typed_dict(complete, required),
        any(part.has_chosen_hash for part in parts.values()),
    )
    converted = {"bytes", "literal", *CONVERSIONS.get()}
    if not all(converted.isdisjoint(field.kinds) for field in fields.values()):
        prepared = prepared.map(converting)
    validation = _Validation(prepared, tuple(fields), optional_names(schema))
    return InputSchema(schema, validation.in_loop, validation.in_thread)


def _typed_dict(fields: Mapping[str, Any], required: Collection[str]) -> Any:
    members = {
        name: core_schema.typed_dict_field(core, required=name in required)
        for name, core in fields.items()
    }
    return core_schema.typed_dict_schema(members, extra_behavior="forbid")


def _declared_model(model: type[BaseModel], strict_numbers: bool) -> InputSchema:
    """A model; unknown arguments are rejected unless its configuration has ``extra``."""
    if "extra" not in model.model_config:
        same = {name: getattr(model, name) for name in ("__module__", "__qualname__", "__doc__")}
        bases = (model,)
        model = new_class(
            model.__name__, bases, {"extra": "forbid"}, lambda members: members.update(same)
        )
    what = f"A field of {model.__qualname__}"
    with supported_types(what):
        return _input_of_model(model, what, strict_numbers)


def _declared_schema(schema: Json, where: str) -> InputSchema:
    """A JSON Schema, which is enforced; the handler takes a dict."""
    whole = {**schema} if "type" in schema else {"type": "object", **schema}
    if whole["type"] != "object":
        raise ConfigurationError(
            f"The input schema of {where} describes a {whole['type']}, but arguments are an "
            'object: write {"type": "object", "properties": {…}}'
        )
    validator = compiled(whole, where)
    containers = {*non_strings(whole)}
    optional = [name for name in optional_names(whole) if not _takes_null(whole, name)]

    def read(arguments: dict[str, Any], max_steps: int = STEPS_IN_LOOP) -> dict[str, Any]:
        try:
            problems = validator.problems(arguments, max_steps=max_steps)
            for repair, names in ((decode_containers, containers), (without_nulls, optional)):
                if problems and (repaired := repair(arguments, names)) is not None:
                    arguments = repaired
                    problems = validator.problems(arguments, max_steps=max_steps)
        except TooManySteps:
            raise LargeArguments from None
        if problems:
            raise InvalidArguments(unknown_arguments(whole, arguments) or problems)
        return compiler.with_defaults(whole, arguments)

    return InputSchema(whole, read, partial(read, max_steps=MAX_STEPS))


def _takes_null(schema: Json, name: str) -> bool:
    """Whether null is a value of a property, and so does not mean that it is left out."""
    described = schema["properties"][name]
    reference = described.get("$ref") if isinstance(described, Mapping) else None
    if isinstance(reference, str):
        described = schema.get("$defs", {}).get(reference.rpartition("/")[2], described)
    return accepts_null(described)


def input_of(declared: Any, where: str, *, strict_numbers: bool = False) -> InputSchema:
    is_model = isinstance(declared, type) and issubclass(declared, BaseModel)
    if is_model and not issubclass(declared, RootModel):
        return _declared_model(declared, strict_numbers)
    if isinstance(declared, Mapping):
        return _declared_schema(declared, where)
    raise ConfigurationError(
        f"The input of {where} is declared as {declared!r}: give a pydantic model with fields, or "
        "a dict with a JSON Schema"
    )


def _field_names(names: Sequence[str]) -> dict[str, str]:
    """Return the parameters by the names of their fields in a pydantic model.

    Where those are not valid, or not free, the name of the parameter becomes an alias.
    """
    fields: dict[str, str] = {}
    for name in names:
        field = name
        taken = {*names, *fields} - {name}
        while field.startswith("_") or hasattr(BaseModel, field) or field in taken:
            field = f"arg_{field.lstrip('_')}_"
        fields[field] = name
    return fields


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
    prepared = _Prepared.of(declared, what, strict_numbers=strict_numbers).map(converting)
    validation = _Validation(prepared, accepted, optional_names(schema))
    return InputSchema(schema, validation.in_loop, validation.in_thread)


class _Validation:
    """Validates the arguments of one component: small ones in the event loop, others in a thread.

    It stops at the first wrong item of a collection. If the arguments are few, they are then
    validated once more to describe every error.
    """

    def __init__(
        self, prepared: _Prepared, accepted: Sequence[str], optional: Collection[str]
    ) -> None:
        self._accepted = accepted
        self._optional = optional
        self._fail_fast = private.new_validator(prepared.failing_fast).validate_python
        if prepared.has_chosen_hash:
            self._fail_fast = partial(argument_size.with_few_members, self._fail_fast)
        self._complete = prepared.complete
        # Compiled for the first invalid arguments.
        self._find_all: Callable[[dict[str, Any]], Any] | None = None

    def in_loop(self, arguments: dict[str, Any]) -> Any:
        """The valid arguments; raises InvalidArguments, or LargeArguments: use ``in_thread``."""
        if not argument_size.is_small(arguments):
            raise LargeArguments
        try:
            return self._fail_fast(arguments)
        except ValidationError as error:
            return self._repaired(arguments, error, is_in_loop=True)

    def in_thread(self, arguments: dict[str, Any]) -> Any:
        """The valid arguments; raises InvalidArguments."""
        try:
            return self._fail_fast(arguments)
        except ValidationError as error:
            return self._repaired(arguments, error, is_in_loop=False)

    def _repaired(
        self, arguments: dict[str, Any], error: ValidationError, *, is_in_loop: bool
    ) -> Any:
        """The valid arguments after repairs; raises InvalidArguments if they are not valid either.

        Repaired ones may be larger: in the loop, it also raises LargeArguments.
        """
        for _ in range(MAX_REPAIRS):
            repaired = arguments_with_repairs(arguments, problems_of(error), self._optional)
            if repaired is None:
                break
            if is_in_loop and not argument_size.is_small(repaired):
                raise LargeArguments
            try:
                return self._fail_fast(repaired)
            except ValidationError as other:
                arguments = repaired
                error = other
        error = self._with_every_problem(arguments, error)
        raise InvalidArguments(describe_errors(error, self._accepted)) from error

    def _with_every_problem(
        self, arguments: dict[str, Any], error: ValidationError
    ) -> ValidationError:
        if not argument_size.is_small(arguments):
            return error
        if self._find_all is None:
            self._find_all = private.new_validator(self._complete).validate_python
        try:
            self._find_all(arguments)
        except ValidationError as complete:
            return complete
        return error


def compiled(schema: Json, where: str) -> compiler.Validator:
    with explain(f"A schema of {where} cannot be used"):
        return compiler.compile(schema)


@contextmanager
def supported_types(what: str, *annotations: Any) -> Iterator[None]:
    problem = next(filter(None, map(serializers.unsupported_class, annotations)), None)
    if problem is not None:
        raise ConfigurationError(f"{what} cannot be sent or received as JSON: {problem}")
    try:
        yield
    except (*UNSUPPORTED, NameError, TypeError) as error:
        raise ConfigurationError(
            f"{what} has a type without a JSON form: use types of Python, dataclasses or pydantic "
            f"models; objects of Django are on the Frame. pydantic says: {error}"
        ) from error
