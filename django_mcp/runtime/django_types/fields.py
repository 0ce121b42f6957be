"""Kinds that a site registers for its own fields of models and forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

from django_mcp.core.components.base import ConfigurationError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FieldKind:
    """How a value of a field is given as an argument."""

    annotation: Any
    schema: dict[str, Any]


_registered: dict[type, FieldKind] = {}


def register_field_kind(
    field_class: type, annotation: Any, *, schema: Mapping[str, Any] | None = None
) -> None:
    """Let toolsets, form tools and forms of elicitation use fields of ``field_class``.

    ``field_class`` is a class of model or form fields, with its subclasses. ``annotation`` is the
    type of an argument, such as ``str``, which the lookup or the form gets; ``schema`` is its JSON
    Schema, by default that of ``annotation``. ``register_serializer`` says what a row has. A later
    call replaces an earlier one. Raises ConfigurationError.
    """
    if not isinstance(field_class, type):
        raise ConfigurationError(
            f"register_field_kind takes a class of fields, not {field_class!r}"
        )
    if schema is None:
        try:
            schema = TypeAdapter(annotation).json_schema()
        except Exception as error:
            raise ConfigurationError(
                f"{annotation!r} has no JSON Schema: give register_field_kind a schema"
            ) from error
    _registered[field_class] = FieldKind(annotation, dict(schema))


def entry_of(field: Any, table: Mapping[type[Any], T]) -> FieldKind | T | None:
    """Return the entry of the nearest base of a field's class: of the site, or of a table."""
    for base in type(field).__mro__:
        if base in _registered:
            return _registered[base]
        if base in table:
            return table[base]
    return None
