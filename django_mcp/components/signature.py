"""Reading which parameters a handler has, and how to call it.

The Frame class is known by its attribute ``__mcp_frame__`` only: it belongs to a higher layer.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from django_mcp.components.base import ConfigurationError, Invoke

UNIONS = (Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a parameter that clients repeat in a header: ``Annotated[str, Header("Region")]``.

    It is sent as ``Mcp-Param-Region`` too, so that a gateway can route a call by it.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), "x-mcp-header": self.name}


class Parameter(NamedTuple):
    """One parameter of a handler, other than the Frame."""

    name: str
    annotation: Any
    default: Any

    @property
    def is_annotated(self) -> bool:
        return self.annotation is not inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    where: str
    parameters: tuple[Parameter, ...]
    frame: str | None
    """The name of its parameter for the Frame."""
    has_var_keyword: bool
    returns: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)


class CallConvention(NamedTuple):
    handler: Callable[..., Any]
    invoke: Invoke
    is_async: bool


def read(function: Callable[..., Any]) -> Signature:
    """The signature of ``function``; raises ConfigurationError for one that cannot be called."""
    inner = underlying(function)
    where = f"{inner.__module__}.{inner.__qualname__}"
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(f"{where} yields, but a handler returns one value")
    # The classes inside the class of a method: ``params: Input`` names one of them.
    owner = type(getattr(function, "__self__", None))
    hints = _hints(inner, where, dict(inspect.getmembers_static(owner, inspect.isclass)))
    found = _parameters(function, where, hints)
    frame = next((p.name for p in found if _is_for_frame(p)), None)
    named = [p for p in found if p.name != frame and p.kind is not p.VAR_KEYWORD]
    return Signature(
        where=where,
        parameters=tuple(Parameter(p.name, p.annotation, p.default) for p in named),
        frame=frame,
        has_var_keyword=any(p.kind is p.VAR_KEYWORD for p in found),
        returns=hints.get("return", inspect.Parameter.empty),
    )


def is_async(function: Callable[..., Any]) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, underlying(function))))


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a partial, or of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    inner: Callable[..., Any] = type(function).__call__
    return inner


def is_frame(annotation: Any) -> bool:
    """Whether ``annotation`` is the Frame, or a union that contains it."""
    if get_origin(annotation) is Annotated:
        return is_frame(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return any(is_frame(member) for member in get_args(annotation))
    return getattr(annotation, "__mcp_frame__", False) is True


def by_keywords(function: Callable[..., Any], signature: Signature) -> CallConvention:
    return CallConvention(function, _invoke(function, signature.frame), is_async(function))


def by_value(function: Callable[..., Any], signature: Signature) -> CallConvention:
    """Calls ``function`` with the validated arguments as one value: ``execute(params, frame)``."""
    names, frame_name = list(signature.names), signature.frame
    # A second parameter without an annotation is the Frame, whatever its name.
    if len(names) == 2 and frame_name is None and not signature.parameters[1].is_annotated:
        frame_name = names.pop()
    if len(names) > 1 or signature.has_var_keyword:
        raise ConfigurationError(
            f"{signature.where} gets its arguments as one value, because their schema is "
            "declared: let it take (params, frame), or leave the schema out"
        )
    call = _invoke(function, frame_name)
    if not names:
        return CallConvention(function, lambda value, frame: call({}, frame), is_async(function))
    name = names[0]
    return CallConvention(
        function, lambda value, frame: call({name: value}, frame), is_async(function)
    )


class _FramePlaceholder:
    """Replaces a Frame class that is imported for type checkers only."""

    __mcp_frame__ = True


def _hints(inner: Callable[..., Any], where: str, nested: Mapping[str, Any]) -> dict[str, Any]:
    known = getattr(inspect.unwrap(inner), "__globals__", {})
    local = {**({} if "Frame" in known else {"Frame": _FramePlaceholder}), **nested}
    try:
        return typing.get_type_hints(inner, localns=local, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"An annotation of {where} cannot be evaluated at run time: {error}. Import its name "
            "at the top of the module, not under TYPE_CHECKING nor inside a function"
        ) from error


def _parameters(
    function: Callable[..., Any], where: str, hints: Mapping[str, Any]
) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise ConfigurationError(
            f"{where} has no signature: wrap it in a function with annotations"
        ) from error
    for parameter in found:
        _check_kind(parameter, where)
    # Arguments that a partial binds by name are fixed: a client cannot choose them.
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in found
        if parameter.name not in bound
    ]


def _check_kind(parameter: inspect.Parameter, where: str) -> None:
    """Raise for a parameter without a name for callers: the arguments of MCP are named."""
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
    is_named_frame = parameter.name == "frame" and parameter.annotation is parameter.empty
    return is_named_frame or is_frame(parameter.annotation)


def _invoke(function: Callable[..., Any], frame_name: str | None) -> Invoke:
    if frame_name is None:
        return lambda arguments, frame: function(**arguments)
    return lambda arguments, frame: function(**arguments, **{frame_name: frame})
