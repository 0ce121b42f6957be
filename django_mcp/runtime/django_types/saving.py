"""Saving the object of a form: a new row never replaces another one, whatever its primary key.

``Model.save`` updates the row with the key of an object, if there is one, and inserts it otherwise.
Where a caller writes the key, this row may be anybody's, also one that the caller cannot see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import DatabaseError
from django.db.models import Model

from django_mcp.core.protocol.errors import ToolError

KEY_CHANGED = "The primary key of a row cannot be changed."


class ChangedKey(ToolError):
    """The caller gave a row another primary key, which another row may have."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field}: {KEY_CHANGED}")


class MissingRow(ToolError):
    """The row has been deleted since it was read."""

    def __init__(self) -> None:
        super().__init__("This row does not exist any more.")


def key_names(model: type[Model]) -> list[str]:
    """Return the names of the fields that are the primary key of a model, or of its parents."""
    options = model._meta
    parts = [field for field in options.concrete_fields if field.primary_key]
    return [*{field.name: None for field in (*options.pk_fields, *parts)}]


class KeyGuard:
    """Remembers the key of an object before a form changes the object."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance
        self._attributes = {
            name: instance._meta.get_field(name).attname for name in key_names(type(instance))
        }
        self._before = self._key()

    def changed(self) -> str | None:
        """Return the name of a field that changes the key of an existing row, or None.

        An object without a key is copied: no other row has such a key.
        """
        if self._instance._state.adding:
            return None
        return next(self._changed(), None)

    @contextmanager
    def saves(self, *, always_inserts: bool = False) -> Iterator[None]:
        """Within it, the first save inserts a new row, or updates the one that was read.

        A new object may have the key of a row if the form did not change it: the code that made the
        object has chosen it. With ``always_inserts``, such a row is a conflict as well.
        """
        # An attribute of the object: models override ``save``, often without its arguments.
        attributes = vars(self._instance)
        attributes["save_base"] = partial(self._save, always_inserts)
        try:
            yield
        finally:
            attributes.pop("save_base", None)

    def _save(self, always_inserts: bool, **options: Any) -> None:
        instance = self._instance
        # Only the first save, so that signals see an object without this attribute.
        del instance.save_base
        if instance._state.adding:
            if always_inserts or any(self._changed()):
                # Of all tables: True inserts in the model's own table alone, and updates its
                # parents'.
                options["force_insert"] = (Model,)
                options["force_update"] = False
            instance.save_base(**options)
            return
        if changed := self.changed():
            raise ChangedKey(changed)
        if None in self._key().values() or options.get("force_insert"):
            instance.save_base(**options)
            return
        try:
            instance.save_base(**{**options, "force_update": True})
        except DatabaseError as error:
            if type(error) in (DatabaseError, getattr(type(instance), "NotUpdated", None)):
                raise MissingRow from error
            raise

    def _key(self) -> dict[str, Any]:
        return {name: getattr(self._instance, it) for name, it in self._attributes.items()}

    def _changed(self) -> Iterator[str]:
        for name, value in self._key().items():
            if value is not None and value != self._before[name]:
                yield name
