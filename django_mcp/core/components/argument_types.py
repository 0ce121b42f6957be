"""The types that arguments may have.

pydantic describes an annotation by a core schema (``pydantic_core.core_schema``). ``KNOWN`` is the
table of the kinds of core schemas whose cost is bounded; a tool with any other is refused when it
is registered. The bytes, values, depth and integers of a message are bounded where it is read
(``protocol.jsonrpc``), the numbers in these bounds are in ``argument_size``:

* A collection stops at its first wrong item (``fail_fast``), so errors do not fill the memory.
* A sender can choose the hash of some values. Members of a set and keys of a dict that are such
  values have to be few: each is compared with all others of the same hash.
* A union of several types that contain the union itself needs a discriminator: without one, each
  level of a value doubles the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django_mcp.core.components.base import ConfigurationError

PYTHON = "python-re"

Node = Mapping[str, Any]
"""A core schema of pydantic, or a field in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of core schemas."""

    inner: tuple[str, ...] = ()
    """The members that are core schemas, or lists or dicts of them."""
    fails_fast: bool = False
    """Whether it stops at the first wrong item if it is told to."""
    keeps_numbers: bool = False
    """Whether the type inside takes a JSON value, so that its numbers are not strings."""
    hashed: str | None = None
    """The member with the values that are put into a hash table."""
    has_safe_hash: bool = False
    """Whether a sender cannot make thousands of its values that share a hash value."""


_SAFE = Kind(has_safe_hash=True)
_LEAF = Kind()
_FIELD = Kind(inner=("schema",), keeps_numbers=True)
_WRAPPER = Kind(inner=("schema",))
_ITEMS = Kind(inner=("items_schema",), fails_fast=True)
_LIST = replace(_ITEMS, keeps_numbers=True)
_SET = replace(_LIST, hashed="items_schema")
_MAPPING = Kind(inner=("keys_schema", "values_schema"), fails_fast=True, hashed="keys_schema")
_DICT = replace(_MAPPING, keeps_numbers=True)

KNOWN: Mapping[str, Kind] = {
    # Values without others.
    "any": _SAFE,
    "none": _SAFE,
    "bool": _SAFE,
    "int": _LEAF,  # Unless it is bounded: see ``_has_safe_hash``.
    "float": _SAFE,
    "str": _SAFE,
    "literal": _SAFE,
    "enum": _SAFE,
    "date": _SAFE,
    "datetime": _SAFE,
    "uuid": _LEAF,
    "bytes": _SAFE,
    "time": _SAFE,
    "timedelta": _LEAF,
    "decimal": _LEAF,
    "fraction": _LEAF,
    "complex": _LEAF,
    "url": _LEAF,
    "multi-host-url": _LEAF,
    "is-instance": _LEAF,
    "missing-sentinel": _LEAF,
    "function-plain": _LEAF,
    "definition-ref": _LEAF,
    # Collections.
    "list": _LIST,
    "tuple": _LIST,
    "dict": _DICT,
    "deque": _ITEMS,
    "set": _SET,
    "frozenset": _SET,
    "frozendict": _MAPPING,
    "ordered-dict": _MAPPING,
    "counter": _MAPPING,
    # Objects with fields.
    "model": _FIELD,
    "model-fields": Kind(
        inner=("fields", "extras_schema", "extras_keys_schema"),
        keeps_numbers=True,
    ),
    "model-field": _FIELD,
    "typed-dict": Kind(
        inner=("fields", "extras_schema"),
        keeps_numbers=True,
    ),
    "typed-dict-field": _FIELD,
    "dataclass": _FIELD,
    "dataclass-args": Kind(inner=("fields",), keeps_numbers=True),
    "dataclass-field": _FIELD,
    "named-tuple": Kind(inner=("fields",)),
    "named-tuple-field": _WRAPPER,
    # Before pydantic 2.14, a named tuple is a call.
    "call": Kind(inner=("arguments_schema",)),
    "arguments": Kind(inner=("arguments_schema", "var_args_schema", "var_kwargs_schema")),
    "arguments-parameter": _WRAPPER,
    # Around other kinds.
    "default": _FIELD,
    "nullable": _FIELD,
    "union": Kind(inner=("choices",), keeps_numbers=True),
    "tagged-union": Kind(inner=("choices",), keeps_numbers=True),
    "function-after": _FIELD,
    "function-before": _WRAPPER,
    "function-wrap": _WRAPPER,
    "chain": Kind(inner=("steps",)),
    "lax-or-strict": Kind(inner=("lax_schema", "strict_schema")),
    "json-or-python": Kind(inner=("json_schema", "python_schema")),
    "custom-error": _WRAPPER,
    "definitions": Kind(inner=("schema", "definitions"), keeps_numbers=True),
}
"""The kinds of core schemas that arguments may have, by their type."""

REFUSED: Mapping[str, str] = {
    "json": (
        "Json[…], whose content is not bounded: annotate the type inside the brackets, for which "
        "a string of JSON is accepted as well"
    ),
    "generator": (
        "Iterable or Generator, which is validated only while the handler reads it: annotate "
        "list[…]"
    ),
    "callable": "Callable, which JSON does not have: annotate a string, and choose by it",
    "is-subclass": "type[…], which JSON does not have: annotate a string, and choose by it",
    "arguments-v3": "the arguments of a function: annotate a pydantic model or a TypedDict",
    "ellipsis": "the type of …, which JSON does not have: annotate None",
    "invalid": "Never, which has no values: remove the parameter",
}
"""Why a kind is refused, and the remedy."""

_NUMBERS = frozenset({"int", "float", "bool"})
_NOT_IN_JSON = frozenset(
    {
        "complex", "counter", "dataclass", "date", "datetime", "decimal", "deque", "enum",
        "fraction", "frozendict", "frozenset", "lax-or-strict", "model", "multi-host-url",
        "ordered-dict", "set", "time", "timedelta", "tuple", "union", "url", "uuid",
    }
)  # fmt: skip
"""Kinds of values that JSON writes in another way, which a strict schema would refuse."""
_SCHEMA_OF_HASH: Mapping[str, str] = {
    "default": "schema",
    "nullable": "schema",
    "function-after": "schema",
    "function-before": "schema",
    "lax-or-strict": "lax_schema",
    "json-or-python": "python_schema",
}
"""The member that decides which hash the values of such a schema have."""


def check(core: Any, what: str) -> None:
    """Raise ConfigurationError if a core schema has types that are refused.

    ``what`` begins the message.
    """
    nodes = [*_nodes(core)]
    for node in nodes:
        _check_known(node, what)
    _check_patterns(nodes, what)
    _check_unions(nodes, what)


def has_chosen_hash(core: Any) -> bool:
    """Whether a sender can choose the hash of members of a set, or of keys of a dict.

    The core schema is ``prepared``, and accepted by ``check``.
    """
    return not all(map(_has_safe_members, _nodes(core)))


def kinds_in(core: Any) -> frozenset[str]:
    """The types of all core schemas in one, down to the first unknown one."""
    return frozenset(map(_type_of, _nodes(core)))


def _check_known(node: Node, what: str) -> None:
    kind = _type_of(node)
    if kind in KNOWN:
        return
    reason = REFUSED.get(kind)
    if reason is None:
        reason = (
            f"{kind!r} of pydantic, whose cost is not known: write types of Python, dataclasses "
            "or pydantic models"
        )
    raise ConfigurationError(f"{what} has the type {reason}")


def _check_patterns(nodes: Collection[Node], what: str) -> None:
    """Raise for a pattern that Python would match."""
    engines = {node.get("config", node).get("regex_engine") for node in nodes}
    patterns = [node["pattern"] for node in nodes if node.get("pattern") is not None]
    is_compiled = any(isinstance(pattern, re.Pattern) for pattern in patterns)
    if is_compiled or (patterns and PYTHON in engines):
        raise ConfigurationError(
            f"{what} has a pattern that runs on the engine of Python, which can take a time that "
            "is exponential in the length of a text: write it as a string, without look-around "
            "and without regex_engine, and check the rest in the handler"
        )


def _check_unions(nodes: Collection[Node], what: str) -> None:
    """Raise for a union if several of its members contain the union itself."""
    definitions = {node["ref"]: node for node in nodes if "ref" in node}
    reachable = {ref: _reachable(node, definitions) for ref, node in definitions.items()}
    recursive_refs = [ref for ref in definitions if ref in reachable[ref]]
    for ref in recursive_refs:
        unions = [node for node in _nodes(definitions[ref]) if _type_of(node) == "union"]
        for union in unions:
            recursive_choices = [
                choice for choice in union["choices"] if ref in _reachable(choice, definitions)
            ]
            if len(recursive_choices) > 1:
                raise ConfigurationError(
                    f"{what} has a union of several types that contain it again, which takes twice "
                    "the time for each level of a value: tell the types apart by a field, with "
                    'Field(discriminator="…")'
                )


def _reachable(node: Any, definitions: Mapping[str, Node]) -> set[str]:
    """The names of the definitions that a core schema refers to."""
    refs: set[str] = set()
    pending = [node]
    while pending:
        for inner in _nodes(pending.pop()):
            ref = inner.get("schema_ref")
            if ref is not None and ref not in refs:
                refs.add(ref)
                pending.append(definitions[ref])
    return refs


def _has_safe_members(node: Node) -> bool:
    """Whether the values that a core schema puts into a hash table have safe hashes."""
    hashed = KNOWN[_type_of(node)].hashed
    if hashed is None or node.get(hashed) is None:
        return True
    return _has_safe_hash(node[hashed])


def _has_safe_hash(node: Any) -> bool:
    """Whether a sender cannot make thousands of values that share a hash value."""
    node = _without_label(node)
    kind = node["type"]
    if kind == "int":
        has_bounds = node.keys() & {"ge", "gt"} and node.keys() & {"le", "lt"}
        # The integers of a message have 64 bits, but those in a string any number of digits.
        return node.get("strict") is True or bool(has_bounds)
    if kind == "union":
        return all(_has_safe_hash(choice) for choice in node["choices"])
    if kind in _SCHEMA_OF_HASH:
        return _has_safe_hash(node[_SCHEMA_OF_HASH[kind]])
    return KNOWN[kind].has_safe_hash


# Core schemas.


def _without_label(node: Any) -> Node:
    """The core schema of a member of a union, which may be a tuple of it and a label."""
    schema: Node = node[0] if isinstance(node, tuple) else node
    return schema


def _type_of(node: Node) -> str:
    # The parameters in "arguments" are the only ones without a type.
    kind: str = node.get("type", "arguments-parameter")
    return kind


def _nodes(node: Any) -> Iterator[Node]:
    """Yield a core schema, and everything inside it."""
    node = _without_label(node)
    yield node
    kind = KNOWN.get(_type_of(node))
    if kind is None:
        return  # ``_check_known`` refuses it.
    for name in kind.inner:
        for inner in _schemas_in(node.get(name)):
            yield from _nodes(inner)


def _schemas_in(value: Any) -> Collection[Any]:
    """The core schemas in a member of one: it is one itself, or a list or a dict of them."""
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    if _is_schema(value):
        return (value,)
    members: Collection[Any] = value.values()
    return members


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def prepared(
    core: Any,
    *,
    strict_numbers: bool = False,
    fail_fast: bool = False,
    finite_numbers: bool = False,
    is_key: bool = False,
) -> Any:
    """Return a core schema with these options; the same object if nothing changes.

    What JSON has no values of is never strict, nor a number that ``is_key`` of an object, which is
    a string: no argument would be valid.

    With ``strict_numbers``, a string is not accepted as a number, as the JSON Schema says. A schema
    behind a function that runs before it stays as it is: the function may return strings. With
    ``finite_numbers``, NaN and the infinities are refused.
    """
    prepare = partial(prepared, fail_fast=fail_fast, finite_numbers=finite_numbers)
    if isinstance(core, tuple):  # A member of a union, with its label.
        inner = prepare(core[0], strict_numbers=strict_numbers, is_key=is_key)
        return core if inner is core[0] else (inner, *core[1:])
    kind = KNOWN.get(_type_of(core))
    if kind is None:
        return core  # ``read`` refuses it.
    changes: dict[str, Any] = {}
    if fail_fast and kind.fails_fast and "fail_fast" not in core:
        changes["fail_fast"] = True
    if strict_numbers and _type_of(core) in _NUMBERS and "strict" not in core:
        changes["strict"] = True
    is_foreign = _type_of(core) in (_NOT_IN_JSON | _NUMBERS if is_key else _NOT_IN_JSON)
    if is_foreign and core.get("strict") is not False:
        changes["strict"] = False
    if finite_numbers and _type_of(core) == "float":
        changes["allow_inf_nan"] = False
    for name in kind.inner:
        if name not in core:
            continue
        is_of_key = is_key or name == "keys_schema"
        is_strict = strict_numbers and kind.keeps_numbers and not is_of_key
        change = partial(prepare, strict_numbers=is_strict, is_key=is_of_key)
        prepared_member = _changed(core[name], change)
        if prepared_member is not core[name]:
            changes[name] = prepared_member
    return {**core, **changes} if changes else core


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to the core schemas in a member; the same object if nothing changes."""
    if isinstance(value, list):
        items = [change(item) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    if not isinstance(value, dict) or _is_schema(value):
        return change(value)
    members = {name: change(member) for name, member in value.items()}
    is_same = all(members[name] is member for name, member in value.items())
    return value if is_same else members
