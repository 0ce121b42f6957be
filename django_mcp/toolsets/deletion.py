"""Delete rows: check the rights for every affected row, and ask the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, router, transaction
from django.db.models import Model

from django_mcp.core.protocol.errors import MissingClientCapability, ToolError
from django_mcp.toolsets import access, cascade
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.cascade import Cascade, ProtectedRows, Rows, TooManyRows
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.reading import Reader
from django_mcp.toolsets.schemas import Arguments
from django_mcp.toolsets.writes import locked

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

FORM = {
    "type": "object",
    "properties": {"delete": {"type": "boolean", "title": "Delete"}},
    "required": ["delete"],
}


@dataclass(frozen=True, slots=True)
class Deleter:
    """The operation "delete" of one toolset."""

    toolset: BaseToolset
    reader: Reader

    def delete(self, params: Arguments, frame: Frame) -> dict[str, Any]:
        (value,) = params.sent().values()
        key = self.reader.declaration.key.name
        if self.toolset.confirm_delete:
            self._confirm(frame, value, self._look(frame, value))
        using = self._using
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            row = locked(self.reader, frame, value, using, "delete")
            deleted = self._delete(frame, row, using)
        return {key: value, "deleted": _counts(deleted)}

    def _delete(self, frame: Frame, row: Any, using: str) -> Rows:
        """Delete the row, and return the deleted rows.

        The method of a toolset may keep the row, and its dependent rows. If it does not, the
        caller needs the same permissions as for any deletion.
        """
        consequences, refusal = self._consequences(frame, row)
        if refusal is not None and not self.is_overridden:
            raise refusal
        rows = type(row)._base_manager.using(using).filter(pk=row.pk)
        try:
            with transaction.atomic(using=using):
                self.toolset.perform_delete(frame, row)
        except IntegrityError as error:
            raise self._has_dependents() from error
        if self.is_overridden and rows.exists():
            return {type(row): [row]}
        if refusal is not None:
            raise refusal
        return consequences.deleted

    @property
    def is_overridden(self) -> bool:
        """Whether the toolset itself decides about the deletion of a row."""
        return type(self.toolset).perform_delete is not BaseToolset.perform_delete

    def _consequences(self, frame: Frame, row: Model) -> tuple[Cascade, ToolError | None]:
        """Return the consequences, and why the caller may not delete the row."""
        try:
            return self._permitted_cascade(frame, row), None
        except ToolError as error:
            return Cascade({}, {}), error

    @property
    def _using(self) -> str:
        return router.db_for_write(self.toolset.model)

    def _look(self, frame: Frame, value: Any) -> Cascade:
        """Return the known consequences, without keeping the row locked."""
        using = self._using
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            row = locked(self.reader, frame, value, using, "delete")
            return Cascade({}, {}) if self.is_overridden else self._permitted_cascade(frame, row)

    def _permitted_cascade(self, frame: Frame, row: Model) -> Cascade:
        """Return the consequences; raises ToolError if the caller may not cause all of them."""
        most = self.toolset.max_deleted
        try:
            consequences = cascade.collect(row, self._using, most)
        except TooManyRows as error:
            raise ToolError(
                f"More than {most:,} other rows would be deleted or changed as well."
            ) from error
        except ProtectedRows as error:
            raise self._has_dependents() from error
        for model, rows in consequences.others(row):
            if not access.may_write(self.toolset, frame, "delete", model, rows, self._using):
                raise self._has_dependents()
        for model, rows in consequences.changed.items():
            if not access.may_write(self.toolset, frame, "update", model, rows, self._using):
                raise self._has_dependents()
        return consequences

    def _has_dependents(self) -> ToolError:
        return ToolError(
            f"This {self.reader.name} cannot be deleted: other rows depend on it, which you may "
            "not delete or change."
        )

    def _confirm(self, frame: Frame, value: Any, consequences: Cascade) -> None:
        """Ask the user; raises ToolError unless they agree."""
        question = f"Delete the {self.reader.name} {value}? "
        sentences = [*_sentences(consequences)]
        # Where more rows have come meanwhile, the user is asked again.
        key = f"delete_{_total(consequences.deleted)}_{_total(consequences.changed)}"
        try:
            answer = frame.client.elicit(question + " ".join(sentences), FORM, key=key)
        except MissingClientCapability as error:
            raise ToolError(
                "Nothing was deleted: the user must confirm it, and this client cannot ask them."
            ) from error
        if not answer.accepted or not answer.content["delete"]:
            raise ToolError("Nothing was deleted: the user did not confirm it.")


def _sentences(consequences: Cascade) -> Iterator[str]:
    for verb, rows in (("deletes", consequences.deleted), ("changes", consequences.changed)):
        if rows:
            counts = ", ".join(f"{entry['count']} {entry['name']}" for entry in _counts(rows))
            yield f"This {verb} {counts}."


def _total(rows: Rows) -> int:
    return sum(map(len, rows.values()))


def _counts(rows: Rows) -> list[dict[str, Any]]:
    """Return how many rows there are of each model, by its verbose name."""
    return [{"name": _name(model, len(them)), "count": len(them)} for model, them in rows.items()]


def _name(model: type[Model], count: int) -> str:
    options = model._meta
    return str(options.verbose_name if count == 1 else options.verbose_name_plural)
