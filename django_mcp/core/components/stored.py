"""Components as plain JSON: a session stores those that were registered for it.

A specification holds the options of a component's builder, ``kind``, and ``handler``, the path of
its function. Any worker restores the component from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, from_json, to_json

from django_mcp.core.components import outputs, schemas
from django_mcp.core.components.base import Component, ConfigurationError, check_spec
from django_mcp.core.components.serializers import jsonable
from django_mcp.core.ports import Port

AnyComponent = TypeVar("AnyComponent", bound=Component)

CACHED_SPECS = 1024
"""Restored components to cache, of each kind: every request of a session needs its own."""


def canonical(spec: Mapping[str, Any]) -> bytes:
    """``spec`` as JSON; functions in it become their paths."""
    check_spec(spec)
    try:
        return to_json(spec)
    except PydanticSerializationError:
        encoded = {}
        for option, value in spec.items():
            encode = jsonable if value is None else ENCODERS.get(option, jsonable)
            encoded[option] = encode(value)
        return to_json(encoded)


IS_STORABLE: Port[Callable[[str], bool]] = Port("says which modules may be stored")
"""Whether functions of a module may be stored: it belongs to an installed app."""


def restore(
    text: bytes, build: Callable[..., AnyComponent], placeholder: Callable[..., Any], **default: Any
) -> AnyComponent:
    """The component of ``text``; without a handler, of ``placeholder`` and ``default`` options."""
    spec: dict[str, Any] = from_json(text)
    options = {option: value for option, value in spec.items() if option != "kind"}
    path = options.pop("handler", None)
    # A permission is "app.codename" or the path of a function.
    if ":" in (permission := options.get("permission") or ""):
        options["permission"] = _resolve_stored(permission)
    if isinstance(completers := options.get("complete"), Mapping):
        resolved = {name: _resolve_stored(completer) for name, completer in completers.items()}
        options["complete"] = resolved
    if path is not None:
        return replace(build(_resolve_stored(path), **options), spec=spec)
    component = build(placeholder, **{"description": "", **default, **options})
    return replace(
        component, spec=spec, handler=None, invoke=None, is_async=False, module="", find_line=int
    )


def placeholder(params: Any) -> None:
    """Replaces the handler of a tool or a prompt that a hook of the server answers."""


def _path(function: Any) -> str:
    """The path of ``function`` for any process: ``shop.mcp:search``."""
    if isinstance(function, str):
        return function
    path = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
    with suppress(ImportError, AttributeError, ValueError):
        if resolve_name(path) is function:
            return path
    raise ConfigurationError(
        f"{function!r} cannot be found by another process: give a function that is defined "
        "at the top of a module"
    )


def resolve(path: str) -> Any:
    """The object at ``path``: ``shop.mcp:search`` or ``shop.mcp.search``."""
    try:
        return resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f'There is no handler at {path!r} ({error}): write "module:function"'
        ) from error


def _resolve_stored(path: str) -> Any:
    """``resolve`` a path of a session's component, which leads to a function of an installed app.

    The module is checked before it is imported, and again where the function is defined.
    """
    _check_module(path.partition(":")[0])
    function = resolve(path)
    _check_module(getattr(function, "__module__", None) or "")
    return function


def _check_module(module: str) -> None:
    if not IS_STORABLE.get()(module):
        raise ConfigurationError(
            f"{module!r} belongs to no installed app: the handler of a component that is "
            "registered for a session must be defined in one of INSTALLED_APPS"
        )


def _input_schema(value: Any) -> Any:
    return value if isinstance(value, Mapping | list) else schemas.input_of(value, "a spec").schema


def _paths(functions: Mapping[str, Any]) -> dict[str, str]:
    return {name: _path(function) for name, function in functions.items()}


def _description(value: Any) -> str:
    return str(value() if callable(value) else value)


ENCODERS: Mapping[str, Callable[[Any], Any]] = {
    "handler": _path,
    "permission": _path,
    "complete": _paths,
    "input_schema": _input_schema,
    "arguments": _input_schema,
    "output_schema": lambda value: outputs.output_of(value, "a spec").schema,
    "description": _description,
}
"""The options whose values are no JSON."""
