"""Which fields of models and of forms are passwords: they must not pass through a client."""

from __future__ import annotations

from typing import Any

from django import forms


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
