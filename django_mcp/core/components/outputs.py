"""Output of handlers: the JSON Schema of a return annotation, and its values as JSON.

The adapter and its serializer are compiled once, at registration.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, NoReturn, Union, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from django_mcp.core import private
from django_mcp.core.components import argument_types, serializers
from django_mcp.core.components.base import InvalidOutput
from django_mcp.core.components.invalid_arguments import describe_errors
from django_mcp.core.components.responses import Response
from django_mcp.core.components.schemas import UntitledJsonSchema, compiled, supported_types
from django_mcp.core.components.signature import UNIONS, is_frame
from django_mcp.core.protocol import preencoded
from django_mcp.core.protocol.content import CONTENT, Message
from django_mcp.core.protocol.errors import Json, McpError, ToolError
from django_mcp.core.protocol.schema import walk

UNSTRUCTURED = (None, NoneType, str, bytes, Any, object, NoReturn, inspect.Parameter.empty)
"""Return annotations without structured content."""
PROTOCOL_TYPES = (*CONTENT, Message, Response, McpError, ToolError)
"""Classes whose instances are results or parts of one: they have no output schema."""
SEQUENCES = (list, tuple, Sequence, Iterable, Collection)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """What a handler returns: its JSON Schema, and the functions that write and check it."""

    schema: dict[str, Any]
    encode: Callable[[Any], bytes]
    """The value as JSON; raises InvalidOutput or UnserializableResult."""
    check: Callable[[Any], Any]
    """The value, which is JSON-compatible, if it matches the schema; raises InvalidOutput."""
    read: Callable[[bytes], Any] = serializers.decoded
    """The value of the type, from its JSON; what JSON has itself where no type is declared."""

    def dump(self, value: Any) -> Any:
        """The value as JSON-compatible objects; raises what ``encode`` raises."""
        return serializers.decoded(self.encode(value))


# Types.


def output_of_type(kind: Any, where: str) -> OutputSchema:
    """A type that pydantic supports; a model is also filled from the attributes of a row."""
    with supported_types(f"The return value of {where}", kind):
        adapted = _built_in(kind, repr(kind)) if _is_built_in(kind) else _Adapted.of(kind)
    adapter = adapted.adapter
    schema = deepcopy(adapted.schema)
    validate = adapter.validator.validate_python
    check_numbers = adapted.check_numbers

    def encode(value: Any) -> bytes:
        try:
            valid = _validated(validate, value)
            json = adapter.serializer.to_json(
                valid, by_alias=True, fallback=serializers.json_fallback
            )
            if check_numbers is not None:
                check_numbers(json, valid)
            return json
        except ValidationError as error:
            raise InvalidOutput(describe_errors(error)) from error
        except serializers.NOT_SERIALIZABLE as error:
            raise serializers.not_serializable(value, error) from error

    check_value: Callable[[Any], Any] | None = None

    def check(value: Any) -> Any:
        nonlocal check_value
        if check_value is None:
            # Compiled at its first use: only a handler that builds a Response needs it.
            check_value = _check(schema, where)
        return check_value(value)

    encode_value = _plain_encoder(adapter, encode) if adapted.is_plain else encode
    return OutputSchema(schema, encode_value, check, adapter.validate_json)


class _Adapted(NamedTuple):
    """The core schema and the serializer that pydantic makes of a type."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    check_numbers: Callable[[bytes, Any], None] | None
    is_plain: bool

    @classmethod
    def of(cls, kind: Any) -> _Adapted:
        """The adapter writes NaN as a word where the type has no settings itself."""
        try:
            adapter = TypeAdapter(kind, config=ConfigDict(ser_json_inf_nan=OURS))
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            adapter = TypeAdapter(kind)
        schema = adapter.json_schema(mode="serialization", schema_generator=OutputJsonSchema)
        drop_formats(schema)
        # Each valid value is then written alike by every writer of JSON.
        is_plain = all(map(_is_plain_schema, _core_schemas(adapter.core_schema)))
        return cls(adapter, schema, _check_of_numbers(adapter), is_plain)


BUILT_IN = (bool, bytes, dict, float, frozenset, int, list, NoneType, set, str, tuple, Any)


def _is_built_in(kind: Any) -> bool:
    """Whether a type consists of built-in ones, which pydantic always serializes alike."""
    outer = get_origin(kind) or kind
    is_known = any(outer is known for known in (*UNIONS, *BUILT_IN))
    return is_known and all(map(_is_built_in, get_args(kind)))


@lru_cache(maxsize=512)
def _built_in(kind: Any, spelled: str) -> _Adapted:
    """The same of a built-in type, which many tools return. ``spelled`` tells unions apart that
    differ in their order only."""
    return _Adapted.of(kind)


class OutputJsonSchema(UntitledJsonSchema):
    """JSON Schema that every value meets: clients reject a whole answer for one that does not."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        # Before pydantic 2.14, with a pattern that 0E-10 does not match.
        return {"type": "string"}


MET_FORMATS = frozenset({"binary", "date", "ipv4", "ipv6", "uuid"})
"""Formats of JSON Schema that all values of a type of Python have. A time may lack an offset, a
duration may have fractions or a sign, and an address may have letters outside of ASCII."""


def drop_formats(schema: dict[str, Any]) -> None:
    """Remove the formats of the types in a schema that not all their values have."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if part.get("format", "uuid") not in MET_FORMATS:
            del part["format"]
        pending += [child.schema for child in walk.children(part)]


def _validated(validate: Callable[..., Any], value: Any) -> Any:
    try:
        return validate(value, from_attributes=True)
    except ValidationError:
        # Once more, with the values of other types in it converted.
        shown = serializers.deeply_converted(value, rows=True)
        if shown is value:  # An iterator in it has no items any more.
            raise
        return validate(shown, from_attributes=True)


# Numbers that JSON does not have. pydantic writes them as null in the types with settings of their
# own: models, and a dataclass or a TypedDict that is the whole type. Others have the words.

WITHOUT_FLOATS = frozenset(
    {
        "bool", "bytes", "date", "datetime", "decimal", "default", "definition-ref", "definitions",
        "dataclass", "dataclass-args", "dataclass-field", "enum", "int", "json-or-python",
        "lax-or-strict", "literal", "model", "model-field", "model-fields", "none", "nullable",
        "str", "tagged-union", "time", "timedelta", "typed-dict", "typed-dict-field", "union",
        "url", "uuid",
    }
)  # fmt: skip
"""Core schemas for values that are not floats, apart from the schemas inside them."""
CONTAINERS: Mapping[str, str] = {
    "dict": "values_schema",
    "frozenset": "items_schema",
    "list": "items_schema",
    "set": "items_schema",
    "tuple": "items_schema",
}
"""Core schemas that hold anything if they lack this member."""
WITH_SETTINGS = frozenset({"model", "dataclass", "typed-dict"})
NUMBERS_AS = "ser_json_inf_nan"
OURS: Final = "constants"


def _check_of_numbers(adapter: TypeAdapter[Any]) -> Callable[[bytes, Any], None] | None:
    """A function that raises UnserializableResult for NaN in JSON; None where none can be."""
    nodes = _core_schemas(adapter.core_schema)
    if not any(_may_be_float(node) for node in nodes):
        return None
    own = [node for node in nodes if node["type"] in WITH_SETTINGS]
    if any(node.get("config", {}).get(NUMBERS_AS, OURS) != OURS for node in own):
        return None  # Its author has decided how they are written.
    may_be_null = any(node["type"] == "model" or node is adapter.core_schema for node in own)

    def check_words(json: bytes, valid: Any) -> None:
        serializers.finite(json)
        if may_be_null and serializers.NULL in json:
            serializers.check_finite(adapter.serializer.to_python(valid))

    return check_words


PLAIN = frozenset(
    {
        "bool", "dict", "float", "int", "list", "none", "nullable", "str", "typed-dict",
        "typed-dict-field",
    }
)  # fmt: skip
"""Core schemas whose valid values are of types that JSON has itself. They are new or immutable,
while a valid instance of a model or a dataclass may have been changed to hold anything."""


def _is_plain_schema(node: Mapping[str, Any]) -> bool:
    kind = node["type"]
    settings = node.get("config", {})
    is_written_otherwise = any(name.startswith("serialization") for name in node)
    forms = {name: form for name, form in settings.items() if name.startswith("ser_")}
    if is_written_otherwise or forms not in ({}, {NUMBERS_AS: OURS}):
        return False
    if kind == "dict" and node.get("keys_schema", {}).get("type") != "str":
        return False
    holds_anything = kind in CONTAINERS and CONTAINERS[kind] not in node
    has_more = bool(node.get("computed_fields")) or node.get("extra_behavior") == "allow"
    has_more = has_more or settings.get("extra_fields_behavior") == "allow"
    return kind in PLAIN and not (holds_anything or has_more)


def _plain_encoder(
    adapter: TypeAdapter[Any], encode: Callable[[Any], bytes]
) -> Callable[[Any], bytes]:
    """``encode`` for a plain type: orjson writes the same bytes.

    The validator rejects numbers that are not finite: orjson writes them as null, and to look for
    them in the JSON takes longer.
    """
    core = argument_types.prepared(adapter.core_schema, finite_numbers=True)
    validator = adapter.validator
    if core is not adapter.core_schema:
        validator = private.new_validator(core)
    validate = validator.validate_python

    def encode_plain(value: Any) -> bytes:
        try:
            valid = _validated(validate, value)
        except serializers.NOT_SERIALIZABLE as error:
            encode(value)  # Raises the error that is said of other types.
            raise InvalidOutput(READ_ONCE) from error
        json = preencoded.encode_plain(valid)
        return encode(valid) if json is None else json

    return encode_plain


READ_ONCE = "an item of an iterator does not have the declared type: return a list"


def _may_be_float(node: Mapping[str, Any]) -> bool:
    kind = node["type"]
    if kind in CONTAINERS:
        return CONTAINERS[kind] not in node
    has_more = bool(node.get("computed_fields")) or node.get("extra_behavior") == "allow"
    return has_more or kind not in WITHOUT_FLOATS


def _core_schemas(core: Any) -> list[Mapping[str, Any]]:
    """A core schema and all in it, but for values and settings."""
    schemas: list[Mapping[str, Any]] = []
    waiting: list[Any] = [core]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and isinstance(node.get("type"), str):
            schemas.append(node)
            waiting += [node[name] for name in node if name not in ("metadata", "default")]
        elif isinstance(node, dict):  # Schemas by the name of their field.
            waiting += node.values()
        elif isinstance(node, list | tuple):
            waiting += node
    return schemas


# JSON Schemas.


def output_of(declared: Any, where: str) -> OutputSchema:
    """A JSON Schema, which is enforced, or a type."""
    if not isinstance(declared, Mapping):
        return output_of_type(declared, where)
    schema = dict(declared)
    check = _check(schema, where)

    def encode(value: Any) -> bytes:
        json = serializers.encoded(serializers.deeply_converted(value))
        check(serializers.decoded(json))
        return json

    return OutputSchema(schema, encode, check)


def _check(schema: Json, where: str) -> Callable[[Any], Any]:
    validator = compiled(schema, where)

    def check(value: Any) -> Any:
        if problems := validator.problems(value, name="the value", max_steps=sys.maxsize):
            raise InvalidOutput(problems)
        return value

    return check


# Annotations.


def structured_type(annotation: Any) -> Any:
    """The type of the structured content in a return annotation, or None."""
    while hasattr(annotation, "__value__"):
        annotation = annotation.__value__
    if get_origin(annotation) in UNIONS:
        members = get_args(annotation)
        values = [get_args(m)[0] if _is_with_frame(m) else m for m in members]
        described = tuple(dict.fromkeys(m for m in values if not _is_protocol_type(m)))
        if Any in described or all(_is_unstructured(m) for m in described):
            return None
        return Union[described]  # noqa: UP007 - its members are known at run time only
    if _is_with_frame(annotation):
        return structured_type(get_args(annotation)[0])
    if serializers.has_serializer(annotation):
        return None
    return None if _is_unstructured(annotation) else annotation


def _is_with_frame(annotation: Any) -> bool:
    """Whether it is a value with a Frame: ``tuple[Ticket, Frame]``."""
    members = get_args(annotation)
    return get_origin(annotation) is tuple and len(members) == 2 and is_frame(members[1])


def _is_unstructured(annotation: Any) -> bool:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(bare) is None:
        return _is_protocol_type(bare) or any(bare is kind for kind in UNSTRUCTURED)
    return get_origin(bare) in SEQUENCES and any(_is_protocol_type(m) for m in get_args(bare))


def _is_protocol_type(annotation: Any) -> bool:
    """Whether it is the Frame, a class of PROTOCOL_TYPES, or a union that contains one."""
    members = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    classes = [member for member in members if isinstance(member, type)]
    return is_frame(annotation) or any(issubclass(kind, PROTOCOL_TYPES) for kind in classes)
