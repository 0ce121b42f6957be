"""Fields of models and forms: the kinds that a site registers for its own, and which are passwords.

A password must not pass through a client, nor must its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from django_mcp.core.components.base import ConfigurationError

if TYPE_CHECKING:
    from django import forms

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


def is_hash(field: Any) -> bool:
    """Whether a field of a model is the hash of a password."""
    return getattr(field, "name", "") == "password" and _is_user(getattr(field, "model", None))


def is_password(name: str, field: forms.Field, form: Any) -> bool:
    """Whether a field of a form, or of its class, shows or takes a password or its hash.

    A form of a user model that does not name another widget has a plain text for the hash.
    """
    parts = getattr(field.widget, "widgets", [field.widget])
    if any(getattr(part, "input_type", None) == "password" for part in parts):
        return True
    model = getattr(getattr(form, "_meta", None), "model", None)
    return name == "password" and _is_user(model)


def _is_user(model: Any) -> bool:
    # Imported once the apps are ready.
    from django.contrib.auth.base_user import AbstractBaseUser

    return isinstance(model, type) and issubclass(model, AbstractBaseUser)
