"""Frozen values which are made as fast as open ones.

A frozen dataclass sets each of its fields by a function call, since its own ``__setattr__``
refuses: of twelve fields that takes 2.8 µs, six times as long as it takes an open class. It
counts where every request makes one.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from inspect import signature
from typing import Any, TypeVar

Value = TypeVar("Value", bound=type)


def quickly_made(cls: Value) -> Value:
    """Gives a frozen dataclass with slots a constructor which costs as much as an open one's.

    While it is filled, a new value belongs to a subclass that lets itself be written; nobody has
    seen it by then. The constructor takes what it took before. Nothing can be derived from it.
    """
    free = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    opened = type(f"Unfinished{cls.__name__}", (cls,), {"__slots__": (), **free})
    fill = [f"self.{field.name} = {_value(field)}" for field in fields(cls)]
    lines = ["become(self, opened)", *fill, "self.__class__ = cls"]
    names = {"cls": cls, "opened": opened, "become": vars(object)["__class__"].__set__}
    for field in fields(cls):
        names |= {
            f"{field.name}_default": field.default,
            f"{field.name}_make": field.default_factory,
        }
    exec("\n    ".join([f"def __init__({_parameters(cls)}):", *lines]), names)
    constructor: Any = names["__init__"]
    constructor.__signature__ = signature(vars(cls)["__init__"])
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    type.__setattr__(cls, "__init__", constructor)
    type.__setattr__(cls, "__init_subclass__", classmethod(_refuse))
    return cls


def _refuse(cls: type) -> None:
    raise TypeError(f"{cls.__name__} is derived from {cls.__bases__[0].__name__}, which cannot be")


def _parameters(cls: type) -> str:
    by_position = [_parameter(field) for field in fields(cls) if not field.kw_only]
    by_name = [_parameter(field) for field in fields(cls) if field.kw_only]
    return ", ".join(["self", *by_position, *(["*", *by_name] if by_name else [])])


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        # What is absent here is made by the constructor, anew for each value.
        return f"{field.name}={field.name}_make"
    return field.name if field.default is MISSING else f"{field.name}={field.name}_default"


def _value(field: Field[Any]) -> str:
    if field.default_factory is MISSING:
        return field.name
    return f"{field.name}_make() if {field.name} is {field.name}_make else {field.name}"
