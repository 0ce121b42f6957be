"""Validation of large arguments by pydantic, within bounds of time and memory.

pydantic collects every error, tries every member of a union at each level of a recursive model,
builds sets whose members share a hash value, and releases the interpreter lock nowhere meanwhile.
Arguments above ``MAX_NODES``, or ``MAX_LINEAR_NODES`` where their types can cost no more, are
therefore validated in a thread, by a validator of the same schema with functions in it: they count
steps, stop after a few errors, and let other threads run.
"""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

from django_mcp.components.base import ConfigurationError
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import McpError
from django_mcp.protocol.schema.steps import TooManySteps

MAX_NODES = 500
"""JSON values, and pieces of 64 characters, which are validated in the event loop."""
MAX_LINEAR_NODES = 10_000
"""The same for types that take as long for each value, some 50 ns: about half a millisecond."""
MAX_STEPS = 500_000
"""Models, items and unions that one validation may look at: a second or two."""
MAX_ERRORS = 10
MAX_OF_ONE_HASH = 16
PYTHON = "python-re"

Node = dict[str, Any]

_INNER = (
    "schema", "items_schema", "keys_schema", "values_schema", "lax_schema", "strict_schema",
    "json_schema", "python_schema", "arguments_schema", "extras_schema", "extras_keys_schema",
)  # fmt: skip
_SEVERAL = ("choices", "steps", "definitions", "items_schema", "arguments_schema", "fields")
_SCALARS = frozenset(
    {"any", "bool", "int", "float", "str", "none", "literal", "enum", "date", "datetime", "uuid"}
)
_FLAT = _SCALARS | {"model", "model-fields", "model-field", "default", "nullable"}
"""Types whose validation takes the same time for every value."""
_LINEAR = _FLAT | {"list", "tuple", "typed-dict", "typed-dict-field", "dict"}
"""Types whose validation takes a time in proportion to the number of values in them."""
_HOLDING = frozenset({"model-fields", "list", "tuple", "typed-dict", "dict"})
"""Those of them whose values hold others."""
_HASHED_WITH_SECRET = frozenset({"str", "literal", "enum", "bool", "none"})
"""Types of which a sender cannot make thousands of values that share a hash value."""


class _State(threading.local):
    steps = 0
    containers: list[dict[str, Any]]
    """What is known of each set and mapping that is being validated, the innermost last."""


_state = _State()


def is_small(arguments: Mapping[str, Any], limit: int) -> bool:
    """Whether the event loop may validate the arguments; takes less than 1 µs for few of them."""
    pending = [*arguments.values()]
    size = len(pending)
    for each in pending:
        kind = type(each)
        if kind is str:
            size += len(each) >> 6
        elif kind is list:
            size += len(each)
            if size <= limit:
                pending += each
        elif kind is dict:
            size += len(each)
            if size <= limit:
                pending += each.values()
        if size > limit:
            return False
    return True


def validator_with(schema: Any) -> SchemaValidator:
    """Return the validator of a changed core schema.

    It uses none of the validators that models have already, which lack the change.
    """
    try:
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # Before pydantic 2.12.
        return SchemaValidator(schema)


def validator_of(core: Any) -> Callable[[dict[str, Any]], Any]:
    """Return the validator for large arguments, which raises ValidationError and TooManySteps."""
    validate = validator_with(_bounded(core)).validate_python

    def validate_large(arguments: dict[str, Any]) -> Any:
        _state.steps, _state.containers = MAX_STEPS, []
        with _collector_paused:
            return validate(arguments)

    return validate_large


class _CollectorPaused:
    """Suspends the collector of cycles, which holds up all threads for each of many new objects.

    Those of the block become old objects at its end, which are seldom looked at.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        try:
            if self._was_enabled:
                if not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
        finally:
            self._lock.release()


_collector_paused = _CollectorPaused()


def smallness_of(model: type[BaseModel]) -> Callable[[dict[str, Any]], bool]:
    """Return whether the event loop may validate some arguments of ``model``.

    Not those of a recursive model with unions, whose time may be exponential in the depth.
    Raises ConfigurationError for a pattern that Python would match.
    """
    nodes = [*_nodes(model.__pydantic_core_schema__)]
    engines = {node.get("config", node).get("regex_engine") for node in nodes}
    patterns = [node["pattern"] for node in nodes if node.get("pattern") is not None]
    if any(isinstance(each, re.Pattern) for each in patterns) or (patterns and PYTHON in engines):
        raise ConfigurationError(
            f"A pattern in {model.__qualname__} runs on the engine of Python, which can take a "
            "time that is exponential in the length of a text: write it as a string, without "
            "look-around and without regex_engine, and check the rest in the handler"
        )
    kinds = {node.get("type") for node in nodes}
    if kinds <= _FLAT:
        return lambda arguments: len(arguments) <= MAX_NODES
    keys = {each["keys_schema"]["type"] for each in nodes if "keys_schema" in each}
    if kinds <= _LINEAR and keys <= _HASHED_WITH_SECRET and not patterns:
        # Values that are deeper than any type are not looked at by the validator either.
        levels = sum(node.get("type") in _HOLDING for node in nodes) - 1
        return partial(_has_few_values, levels=levels)
    limit = 0 if {"definition-ref", "union"} <= kinds else MAX_NODES
    return partial(is_small, limit=limit)


def _has_few_values(arguments: Mapping[str, Any], levels: int) -> bool:
    """Whether there are at most ``MAX_LINEAR_NODES``, up to so many levels inside the arguments."""
    level, size = [*arguments.values()], len(arguments)
    for _ in range(levels - 1):
        if size > MAX_LINEAR_NODES:
            return False
        level, number = jsonrpc.inside(level)
        size += number
    if levels and size <= MAX_LINEAR_NODES:
        size += jsonrpc.number_inside(level)
    return size <= MAX_LINEAR_NODES


def _nodes(node: Any) -> Iterator[Node]:
    """Yield a core schema of pydantic, and everything inside it."""
    if isinstance(node, tuple):
        node = node[0]
    if not isinstance(node, dict):
        return
    yield node
    for key in {*_INNER, *_SEVERAL} & node.keys():
        value = node[key]
        if isinstance(value, dict) and not _is_schema(value):
            value = [*value.values()]
        for each in value if isinstance(value, list) else [value]:
            yield from _nodes(each)


def _bounded(node: Any, extra: str = "ignore") -> Any:
    """Return a core schema of pydantic with limits in it; ``extra`` is the model's setting."""
    if isinstance(node, tuple):  # A member of a union and its label.
        return (_bounded(node[0], extra), *node[1:])
    if not isinstance(node, dict):
        return node
    kind, extra = node.get("type"), node.get("config", {}).get("extra_fields_behavior", extra)
    inner = {key: _bounded(node[key], extra) for key in _INNER if _is_schema(node.get(key))}
    for key in _SEVERAL:
        value = node.get(key)
        if isinstance(value, list):
            inner[key] = [_bounded(each, extra) for each in value]
        elif isinstance(value, dict) and not _is_schema(value):
            inner[key] = {name: _bounded(each, extra) for name, each in value.items()}
    if kind in ("model-fields", "typed-dict"):
        inner["extra_behavior"] = node.get("extra_behavior", extra)
    bounded = {**node, **inner}
    if kind in LIMITS:
        bounded = LIMITS[kind](bounded)
    if bounded.get("type") != kind and "ref" in node:
        bounded["schema"].pop("ref", None)
        bounded["ref"] = node["ref"]
    return bounded


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


# What limits each type of schema.


def _with_steps(schema: Node) -> Node:
    return dict(core_schema.no_info_before_validator_function(_step, schema))


def _fail_fast(schema: Node) -> Node:
    items = schema.get("items_schema")
    if isinstance(items, dict) and items["type"] not in _SCALARS:
        schema = {**schema, "items_schema": _with_steps(items)}
    return {**schema, "fail_fast": True}


def _set(schema: Node) -> Node:
    items = schema.get("items_schema", {"type": "any"})
    if items["type"] in _HASHED_WITH_SECRET:
        return _fail_fast(schema)
    checked = core_schema.no_info_after_validator_function(_check_hash, items)
    return _container({**schema, "items_schema": checked, "fail_fast": True})


def _mapping(schema: Node) -> Node:
    keys, values = schema.get("keys_schema", {"type": "any"}), schema.get("values_schema")
    if keys["type"] not in _HASHED_WITH_SECRET:
        keys = core_schema.no_info_after_validator_function(_check_hash, keys)
    members = {"keys_schema": core_schema.no_info_wrap_validator_function(_first_errors, keys)}
    if values is not None:
        limited = core_schema.no_info_wrap_validator_function(_first_errors, values)
        members["values_schema"] = limited
    return _container({**schema, **members})


def _container(schema: Node) -> Node:
    return dict(core_schema.no_info_wrap_validator_function(_in_container, schema))


def _fields(schema: Node) -> Node:
    if schema["extra_behavior"] != "forbid":
        return _with_steps(schema)
    count = len(schema["fields"]) + MAX_ERRORS
    return dict(core_schema.no_info_before_validator_function(_few_members(count), schema))


def _json(schema: Node) -> Node:
    return dict(core_schema.no_info_before_validator_function(_few_values, schema))


LIMITS: Mapping[Any, Callable[[Node], Node]] = {
    "model": _with_steps,
    "dataclass": _with_steps,
    "typed-dict": _fields,
    "union": _with_steps,
    "tagged-union": _with_steps,
    "list": _fail_fast,
    "tuple": _fail_fast,
    "set": _set,
    "frozenset": _set,
    "dict": _mapping,
    "model-fields": _fields,
    "json": _json,
}


# The functions in the schema. A call lets other threads run.


def _step(value: Any) -> Any:
    _state.steps -= 1
    if _state.steps < 0:
        raise TooManySteps
    return value


def _in_container(value: Any, validate: Callable[[Any], Any]) -> Any:
    _step(value)
    _state.containers.append({"errors": 0, "by_hash": {}})
    try:
        return validate(value)
    finally:
        _state.containers.pop()


def _first_errors(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Leave the rest of a mapping as it is once it is known to be invalid."""
    _step(value)
    container = _state.containers[-1]
    if container["errors"] >= MAX_ERRORS:
        return None
    try:
        return validate(value)
    except ValidationError:
        container["errors"] += 1
        raise


def _check_hash(value: Any) -> Any:
    """Reject what makes a set or a mapping slow: many different values of one hash."""
    _step(value)
    same = _state.containers[-1]["by_hash"].setdefault(hash(value), [])
    if value not in same:
        same.append(value)
    if len(same) > MAX_OF_ONE_HASH:
        raise PydanticCustomError("hash", "Too many of these values have the same hash")
    return value


def _few_members(count: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        _step(value)
        if isinstance(value, dict) and len(value) > count:
            raise PydanticCustomError("members", "Too many unknown members")
        return value

    return check


def _few_values(text: Any) -> Any:
    """Check the JSON in a string like that of a message."""
    try:
        jsonrpc.decode_received(text)
    except (McpError, TypeError, AttributeError) as error:
        raise PydanticCustomError("json", "Not valid JSON, or too much of it") from error
    return text
