"""Components as plain JSON: what a session remembers of those which were registered for it.

A spec holds the options of a component's builder, ``kind``, and ``handler``: where the function
is found that answers. Any worker makes the component from it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, from_json, to_json

from django_mcp.components import schemas
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.serialization import jsonable

AnyComponent = TypeVar("AnyComponent", bound=Component)

SPECS_KEPT = 1024
"""Components which are kept ready, of each kind: a session asks for its own at every request."""


def canonical(spec: Mapping[str, Any]) -> bytes:
    """``spec`` as JSON; functions in it become the places where they are found."""
    try:
        return to_json(spec)
    except PydanticSerializationError:
        return to_json({option: _plain(option, value) for option, value in spec.items()})


def restored(
    text: bytes, build: Callable[..., AnyComponent], unanswered: Callable[..., Any], **instead: Any
) -> AnyComponent:
    """The component which the spec in ``text`` describes.

    Without a handler, ``unanswered`` stands for one while the component is built, and
    ``instead`` for what could have been read from it.
    """
    spec: dict[str, Any] = from_json(text)
    options = {option: value for option, value in spec.items() if option != "kind"}
    handler = options.pop("handler", None)
    for option in ("permission", "complete"):
        if option in options:
            options[option] = _found(options[option])
    if handler is not None:
        return replace(build(found(handler), **options), spec=spec)
    component = build(unanswered, **{"description": "", **instead, **options})
    return replace(
        component,
        spec=spec,
        invoke=None,
        is_async=False,
        takes_frame=False,
        module="",
        find_line=int,
    )


def place_of(function: Any) -> str:
    """Where ``function`` is found by any process: ``shop.mcp:search``."""
    place = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
    try:
        there = resolve_name(place)
    except (ImportError, AttributeError, ValueError):
        there = None
    if there is not function:
        raise ConfigurationError(
            f"{function!r} cannot be found again by another process: give a function which is "
            "defined at the top of a module"
        )
    return place


def found(place: str) -> Any:
    """What is at ``place``: ``shop.mcp:search`` or ``shop.mcp.search``."""
    try:
        return resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f'There is no handler at {place!r} ({error}): write "module:function"'
        ) from error


def _found(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: found(place) for name, place in value.items()}
    # A permission is "app.codename" or the place of a function.
    return found(value) if ":" in value else value


def _plain(option: str, value: Any) -> Any:
    read = READ.get(option)
    return jsonable(value) if value is None or read is None else read(value)


def _place(value: Any) -> str:
    return value if isinstance(value, str) else place_of(value)


def _places(value: Mapping[str, Any]) -> dict[str, str]:
    return {name: _place(function) for name, function in value.items()}


def _input_schema(value: Any) -> Any:
    return value if isinstance(value, Mapping | list) else schemas.input_of(value, "a spec").schema


def _output_schema(value: Any) -> Any:
    return schemas.output_of(value, "a spec").schema


READ: Mapping[str, Callable[[Any], Any]] = {
    "handler": _place,
    "permission": _place,
    "complete": _places,
    "input_schema": _input_schema,
    "arguments": _input_schema,
    "output_schema": _output_schema,
    "description": lambda value: str(value() if callable(value) else value),
}
"""The options which JSON cannot say as they are given."""
