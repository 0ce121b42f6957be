"""Reading a function: what it asks for, what it promises, and how it is to be called.

The Frame is recognised by its mark, ``__mcp_frame__``: it stands on a higher floor.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from django_mcp.components.base import ConfigurationError, Invoke

UNIONS = (Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a parameter which clients repeat in a header: ``Annotated[str, Header("Region")]``.

    It travels as ``Mcp-Param-Region`` too, so that a gateway can route a call by it.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), "x-mcp-header": self.name}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a handler which is not the Frame."""

    name: str
    annotation: Any
    default: Any

    @property
    def is_annotated(self) -> bool:
        """Whether its author said of what type it is."""
        return self.annotation is not inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """What a handler asks for and what it returns, as its author annotated it."""

    where: str
    parameters: tuple[Parameter, ...]
    frame: str | None
    """The name of its parameter for the Frame."""
    rest: bool
    """Whether it takes any further keyword."""
    returns: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(parameter.name for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class CallConvention:
    """How a handler is called."""

    invoke: Invoke
    is_async: bool
    takes_frame: bool


def read(function: Callable[..., Any]) -> Signature:
    """The signature of ``function``; raises ConfigurationError when nobody could call it."""
    where = name_of(function)
    inner = underlying(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(f"{where} yields, but a handler returns one value")
    hints = _hints(inner, where, _classes_around(function))
    present = _parameters(function, where, hints)
    frame = next((p.name for p in present if _is_for_frame(p)), None)
    asked = [p for p in present if p.name != frame and p.kind is not p.VAR_KEYWORD]
    return Signature(
        where=where,
        parameters=tuple(Parameter(p.name, p.annotation, p.default) for p in asked),
        frame=frame,
        rest=any(p.kind is p.VAR_KEYWORD for p in present),
        returns=hints.get("return", inspect.Parameter.empty),
    )


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling ``function`` gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        underlying(function)
    )


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a partial, or behind an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    inner: Callable[..., Any] = type(function).__call__
    return inner


def name_of(function: Callable[..., Any]) -> str:
    """What to call ``function`` in an error message."""
    inner = underlying(function)
    return f"{inner.__module__}.{inner.__qualname__}"


def is_frame(annotation: Any) -> bool:
    """Whether ``annotation`` is the Frame, or may be it."""
    if get_origin(annotation) is Annotated:
        return is_frame(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return any(is_frame(member) for member in get_args(annotation))
    return getattr(annotation, "__mcp_frame__", False) is True


def by_keywords(function: Callable[..., Any], signature: Signature) -> CallConvention:
    """Calls ``function`` with the checked arguments under their names."""
    return CallConvention(
        _keyword_invoke(function, signature.frame),
        is_async=is_async(function),
        takes_frame=signature.frame is not None,
    )


def by_value(function: Callable[..., Any], signature: Signature) -> CallConvention:
    """Calls ``function`` with the checked arguments as one value: ``execute(params, frame)``."""
    value, frame = _value_and_frame(signature)
    return CallConvention(
        _value_invoke(function, value, frame),
        is_async=is_async(function),
        takes_frame=frame is not None,
    )


class _Frame:
    """Stands for a Frame whose name was imported for the type checker only."""

    __mcp_frame__ = True


def _hints(inner: Callable[..., Any], where: str, around: Mapping[str, Any]) -> dict[str, Any]:
    known = getattr(inspect.unwrap(inner), "__globals__", {})
    local = {**({} if "Frame" in known else {"Frame": _Frame}), **around}
    try:
        return typing.get_type_hints(inner, localns=local, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"An annotation of {where} means nothing at run time: {error}. Import its name at "
            "the top of the module, not under TYPE_CHECKING nor inside a function"
        ) from error


def _classes_around(function: Callable[..., Any]) -> dict[str, Any]:
    """The classes inside the class of a method: ``params: Input`` names one of them."""
    owner = type(getattr(function, "__self__", None))
    return {
        name: value
        for kind in reversed(owner.__mro__)
        for name, value in vars(kind).items()
        if isinstance(value, type)
    }


def _parameters(
    function: Callable[..., Any], where: str, hints: Mapping[str, Any]
) -> list[inspect.Parameter]:
    try:
        present = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise ConfigurationError(
            f"{where} does not say what it takes: wrap it in a function with annotations"
        ) from error
    # What a partial has bound by name is decided: no client may choose it.
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in present:
        _refuse_nameless(parameter, where)
    return [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in present
        if parameter.name not in bound
    ]


def _refuse_nameless(parameter: inspect.Parameter, where: str) -> None:
    name = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise ConfigurationError(
            f"{where} takes *{name}, but arguments have names: write {name}: list[…]"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(
            f"{where} takes {name} by position only, but arguments have names: "
            "take the / out of its signature"
        )


def _is_for_frame(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is parameter.empty:
        return parameter.name == "frame"
    return is_frame(parameter.annotation)


def _keyword_invoke(function: Callable[..., Any], frame_name: str | None) -> Invoke:
    if frame_name is None:
        return lambda arguments, frame: function(**arguments)
    return lambda arguments, frame: function(**arguments, **{frame_name: frame})


def _value_invoke(
    function: Callable[..., Any], value_name: str | None, frame_name: str | None
) -> Invoke:
    if value_name is None:
        call = _keyword_invoke(function, frame_name)
        return lambda value, frame: call({}, frame)
    if frame_name is None:
        return lambda value, frame: function(**{value_name: value})
    return lambda value, frame: function(**{value_name: value, frame_name: frame})


def _value_and_frame(signature: Signature) -> tuple[str | None, str | None]:
    """The names of the parameters for the arguments and for the Frame."""
    names, frame = list(signature.names), signature.frame
    # A second parameter of which nothing is said is the Frame, whatever its name.
    if len(names) == 2 and frame is None and not signature.parameters[1].is_annotated:
        frame = names.pop()
    if len(names) > 1 or signature.rest:
        raise ConfigurationError(
            f"{signature.where} is given its arguments as one value, because their schema is "
            "declared: let it take (params, frame), or leave the schema out"
        )
    return (names[0] if names else None), frame
