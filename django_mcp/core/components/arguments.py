"""Arguments of types that JSON does not have, and repairs of the values that models send.

An adapter says how a class in an annotation is listed and validated. A conversion changes values of
one type wherever they are, such as in a field of a model: ``bytes`` are base64. ``apps.py`` adds
those of Django's types.
"""

from __future__ import annotations

import binascii
import re
import types
import typing
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import EncodedBytes
from pydantic_core import PydanticCustomError

from django_mcp.core.components.base import ConfigurationError, Invoke
from django_mcp.core.ports import Port
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import McpError
from django_mcp.core.protocol.limits import MAX_VALUES

MAX_REPAIRS = 16


class Conversion(NamedTuple):
    """A function that changes a value before or after pydantic validates it."""

    moment: Literal["before", "after"]
    function: Callable[[Any], Any]


Adapter = Callable[[type, Sequence[Any]], Any]
"""Returns the metadata for a class, given its annotation's metadata; None for other classes."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """How an argument finds a row of a model: ``Annotated[Book, Lookup(Book.objects.public())]``.

    ``queryset`` is a query set or a manager, or a function of the Frame that returns one; by
    default all rows. Other rows do not exist for the caller. ``field`` is unique.
    """

    queryset: Any = dataclass_field(default=None, repr=False)  # That of a query set has its rows.
    field: str = "pk"


MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """The limits of a file: ``Annotated[UploadedFile, FileLimits(content_types=["image/*"])]``.

    ``max_size`` is in bytes, for each file of a list. ``content_types`` are compared with what
    client and host say, which proves nothing about the contents.
    """

    max_size: int | None = None
    content_types: Sequence[str] = ()

    def __post_init__(self) -> None:
        size = self.max_size
        if size is not None and (type(size) is not int or size < 1):
            raise ConfigurationError(f"max_size of FileLimits is {size!r}: write a number of bytes")
        given = self.content_types
        are_types = isinstance(given, list | tuple) and all(map(_is_type_pattern, given))
        if not are_types:
            raise ConfigurationError(
                f"content_types of FileLimits are {given!r}: write a list such as "
                '["text/csv", "image/*"]'
            )

    def accepts(self, media_type: str) -> bool:
        """Whether a file may have a media type, which is in lower case."""
        kind = f"{media_type.partition('/')[0]}/*"
        return not self.content_types or {media_type, kind} & {*self.content_types} != set()

    def words(self) -> str:
        """The words that are added to the description of a file."""
        size = "" if self.max_size is None else f". At most {self.max_size} bytes"
        types = ", ".join(self.content_types)
        return f"{size}. Only {types}" if types else size


def _is_type_pattern(value: Any) -> bool:
    if not isinstance(value, str) or value != value.lower():
        return False
    return MEDIA_TYPE.fullmatch(value.removesuffix("*") + "x" * value.endswith("*")) is not None


class Deferred(ABC):
    """A valid argument that becomes its value where the handler runs, such as a row.

    What has to be closed after the handler is entered into the stack.
    """

    @abstractmethod
    def get(self, frame: Any, stack: ExitStack) -> Any:
        """Return the value; may block, and raises if there is none."""

    @abstractmethod
    def get_several(self, others: Sequence[Any], frame: Any, stack: ExitStack) -> Sequence[Any]:
        """Return the values of ``others``, which are of the same argument, in their order."""

    @abstractmethod
    async def aget(self, frame: Any, stack: ExitStack) -> Any:
        """Return the value for an async handler."""

    @abstractmethod
    async def aget_several(
        self, others: Sequence[Any], frame: Any, stack: ExitStack
    ) -> Sequence[Any]:
        """Return the values of ``others`` for an async handler."""


def decode_base64(value: Any) -> Any:
    """Return the bytes that a string of base64 stands for (RFC 4648, section 4)."""
    if not isinstance(value, str):
        return value
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PydanticCustomError("base64", "Input should be base64") from error


def base64_schema(listed: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of bytes, with lengths in characters of base64."""
    sizes = {name: size for name, size in listed.items() if name in ("minLength", "maxLength")}
    encoded = {name: -(-size // 3) * 4 for name, size in sizes.items()}
    return {"type": "string", "contentEncoding": "base64", **encoded}


ADAPTERS: Port[Sequence[Adapter]] = Port("adapts arguments of Django's types", default=())
"""Adapters, tried in this order."""
CONVERSIONS: Port[Mapping[str, Conversion]] = Port("converts values of Django's types", default={})
"""Conversions of values, wherever they are in an argument, by their core schema of pydantic."""
FROM_BASE64 = Conversion("before", decode_base64)


def converting(core: Any) -> Any:
    """Return a core schema that converts bytes, members of enums in a Literal, and the values of
    types in ``CONVERSIONS``."""
    if isinstance(core, list | tuple):
        return type(core)(map(converting, core))
    if not isinstance(core, dict):
        return core
    function = core.get("function")  # A named tuple has its class here.
    validator = function.get("function") if isinstance(function, dict) else None
    if isinstance(getattr(validator, "__self__", None), EncodedBytes):
        return core  # It decodes by itself.
    changed = {
        name: member if name in NO_SCHEMAS else converting(member) for name, member in core.items()
    }
    kind = str(core.get("type"))
    if kind == "literal":
        conversion = _to_members(core["expected"])
    else:
        conversion = FROM_BASE64 if kind == "bytes" else CONVERSIONS.get().get(kind)
    # An author's choice about time zones stays.
    if conversion is None or "tz_constraint" in core:
        return changed
    convert = {"type": "no-info", "function": conversion.function}
    return {"type": f"function-{conversion.moment}", "function": convert, "schema": changed}


def _to_members(choices: Sequence[Any]) -> Conversion | None:
    """Converts the values of the members of enums among the choices of a Literal."""
    # With the types of their values, which tell 1 from True.
    members = {(type(m.value), m.value): m for m in choices if isinstance(m, Enum)}
    if not members:
        return None

    def convert(value: Any) -> Any:
        return value if isinstance(value, dict | list) else members.get((type(value), value), value)

    return Conversion("before", convert)


NO_SCHEMAS = frozenset(
    {"cls", "config", "default", "expected", "function", "metadata", "ref", "serialization"}
)
"""Members of core schemas that hold none."""


def adapted(annotation: Any, metadata: Sequence[Any] = ()) -> Any:
    """Return an annotation with the metadata of their adapters at its classes."""
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        changed = adapted(inner, own)
        return annotation if changed is inner else Annotated[(changed, *own)]
    if members := get_args(annotation):
        return _with_members(annotation, members)
    if not isinstance(annotation, type):
        return annotation
    adapters = (adapt(annotation, metadata) for adapt in ADAPTERS.get())
    adapter = next((adapter for adapter in adapters if adapter is not None), None)
    return annotation if adapter is None else Annotated[annotation, adapter]


def _with_members(annotation: Any, members: tuple[Any, ...]) -> Any:
    origin = get_origin(annotation)
    if origin in (typing.Literal, Callable):
        return annotation
    changed = tuple(adapted(member) for member in members)
    if all(new is old for new, old in zip(changed, members, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[changed]  # noqa: UP007 - its members are known at run time only
    copy_with = getattr(annotation, "copy_with", None)
    return origin[changed] if copy_with is None else copy_with(changed)


COLLECTIONS = (list, tuple, set, frozenset)
"""Where several Deferred values may be: they are looked up together."""


def is_deferred(name: str, annotation: Any) -> bool:
    """Return whether values of the argument ``name`` become Deferred ones.

    Raises ConfigurationError for those that ``deferring`` does not find, such as the values of a
    dict.
    """
    if not _has_deferred(annotation):
        return False
    if not _is_resolved(annotation):
        raise ConfigurationError(
            f"The argument {name} has rows or files where they cannot be looked up: they are an "
            "argument, or all members of a list, a tuple or a set. Write an argument of its own, "
            "or take keys, and look the rows up"
        )
    return True


def _has_deferred(annotation: Any) -> bool:
    return _defers(annotation) or any(map(_has_deferred, get_args(annotation)))


def _defers(annotation: Any) -> bool:
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return any(getattr(item, "defers", False) for item in metadata)


def _is_resolved(annotation: Any) -> bool:
    """Whether ``deferring`` finds all Deferred values of an annotation."""
    if _defers(annotation) or not _has_deferred(annotation):
        return True
    origin = get_origin(annotation)
    members = get_args(annotation)
    if origin is Annotated:
        return _is_resolved(members[0])
    if origin in (Union, types.UnionType):
        return all(map(_is_resolved, members))
    # ``get_several`` of the first looks all of them up.
    kinds = [_kind(member) for member in members if member is not ...]
    return origin in (*COLLECTIONS, Sequence) and all(kind and kind == kinds[0] for kind in kinds)


def _kind(annotation: Any) -> list[Any]:
    """The type of a Deferred value with its metadata, to be compared; empty for another one."""
    if get_origin(annotation) is not Annotated:
        return []
    if _defers(annotation):
        return [each for each in get_args(annotation) if not getattr(each, "defers", False)]
    inner, *metadata = get_args(annotation)
    kind = _kind(inner)
    return [*kind, *metadata] if kind else []


def deferring(invoke: Invoke, is_async: bool, names: Sequence[str]) -> Invoke:
    """Return ``invoke`` with the values of the Deferred arguments ``names``."""

    def invoke_with_values(arguments: dict[str, Any], frame: Any) -> Any:
        values = dict(arguments)
        with ExitStack() as stack:
            for name in names:
                given: Any = arguments.get(name)
                if isinstance(given, Deferred):
                    values[name] = given.get(frame, stack)
                elif several := _several(given):
                    members = several[0].get_several(several, frame, stack)
                    values[name] = type(given)(members)
            return invoke(values, frame)

    async def invoke_with_values_async(arguments: dict[str, Any], frame: Any) -> Any:
        values = dict(arguments)
        with ExitStack() as stack:
            for name in names:
                given: Any = arguments.get(name)
                if isinstance(given, Deferred):
                    values[name] = await given.aget(frame, stack)
                elif several := _several(given):
                    members = await several[0].aget_several(several, frame, stack)
                    values[name] = type(given)(members)
            return await invoke(values, frame)

    return invoke_with_values_async if is_async else invoke_with_values


def _several(given: Any) -> list[Any]:
    """The Deferred arguments in a collection."""
    members = [*given] if isinstance(given, COLLECTIONS) else []
    return members if all(isinstance(member, Deferred) for member in members) else []


# Files.

FILE_MEMBERS = frozenset({"download_url", "file_id"})
"""The members of every file that a host sends: https://developers.openai.com/apps-sdk/reference."""


def is_file(schema: Any) -> bool:
    """Whether a JSON Schema is that of a file which a host may send, or of several such files."""
    if not isinstance(schema, Mapping):
        return False
    inner = [schema.get("items"), *schema.get("anyOf", ())]
    required = schema.get("required")
    is_one = isinstance(required, list) and FILE_MEMBERS.issubset(required)
    return is_one or any(map(is_file, inner))


def file_names(schema: Mapping[str, Any]) -> list[str]:
    """The properties of a JSON Schema that are files: hosts fill in those of the top level only."""
    return [name for name, member in schema.get("properties", {}).items() if is_file(member)]


# Repairs. They are made only where validation has failed.

CONTAINERS = frozenset(
    {
        "list_type", "tuple_type", "named_tuple_type", "arguments_type", "deque_type", "set_type",
        "frozen_set_type", "sequence_str", "iterable_type", "dict_type", "frozen_dict_type",
        "ordered_dict_type", "counter_type", "mapping_type", "model_type", "model_attributes_type",
        "dataclass_type",
    }
)  # fmt: skip
"""Errors of pydantic where a list or an object is expected."""


def repaired(
    arguments: dict[str, Any], problems: Sequence[Any], optional: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return arguments with repairs of the values that caused errors, or None.

    Null for an argument that is ``optional`` means that it is not given. A string with the JSON of
    an object or a list becomes that value, where one is expected, and a float without a fraction
    an integer, as JSON has no other numbers. Strings that contain too many values stay.
    """
    wrong = {problem["loc"][0] for problem in problems if problem["loc"]}
    without = without_nulls(arguments, wrong & {*optional})
    changed: Any = arguments if without is None else without
    for problem in problems[:MAX_REPAIRS]:
        kind = problem["type"]
        path = problem["loc"]
        if kind in CONTAINERS:
            changed = _replaced(changed, path, _as_container)
        elif kind == "int_type":
            changed = _replaced(changed, path, _as_integer)
    return None if changed is arguments else changed


def without_nulls(arguments: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
    """Return the arguments without null values of ``names``; None if there are none."""
    nulls = {name for name in names if arguments.get(name, False) is None}
    if not nulls:
        return None
    return {name: value for name, value in arguments.items() if name not in nulls}


def optional_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """The properties of a JSON Schema that are not required."""
    return frozenset(schema.get("properties", ())) - {*schema.get("required", ())}


def _replaced(value: Any, path: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    """Return ``value`` with the member at ``path`` changed; the same object if nothing changed.

    The end of a path may be the name of a member of a union, which is in no value.
    """
    key: Any = path[0] if path else None
    if isinstance(value, dict):
        has_member = key in value
    else:
        is_index = isinstance(value, list) and isinstance(key, int)
        has_member = is_index and 0 <= key < len(value)
    if not has_member:
        return change(value)
    inner = _replaced(value[key], path[1:], change)
    if inner is value[key]:
        return value
    copy = value.copy()
    copy[key] = inner
    return copy


def _as_container(text: Any) -> Any:
    value = decoded(text) if isinstance(text, str) else text
    return value if isinstance(value, dict | list) else text


def decode_containers(arguments: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
    """Return the arguments after decoding the strings among ``names``, or None."""
    changed = {n: _as_container(arguments[n]) for n in arguments.keys() & set(names)}
    if all(arguments[name] is value for name, value in changed.items()):
        return None
    return {**arguments, **changed}


def _as_integer(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def decoded(text: Any, max_values: int = MAX_VALUES) -> Any:
    """Return the value that is written in ``text`` as JSON, or else ``text`` itself."""
    try:
        return jsonrpc.decode_received(text, max_values)
    except (AttributeError, McpError, TypeError):
        return text


def non_strings(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the properties that cannot be strings, of a JSON Schema."""
    definitions = schema.get("$defs", {})
    for name, described in schema.get("properties", {}).items():
        if not _may_be_string(described, definitions):
            yield name


def _may_be_string(described: Any, definitions: Mapping[str, Any]) -> bool:
    if not isinstance(described, Mapping):
        return True
    if reference := described.get("$ref"):
        return _may_be_string(definitions.get(reference.rpartition("/")[2]), definitions)
    if choices := described.get("anyOf") or described.get("oneOf"):
        return any(_may_be_string(choice, definitions) for choice in choices)
    return "string" in described.get("type", "string")
