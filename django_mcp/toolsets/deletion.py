"""Delete rows: check the rights for every affected row, and ask the user."""

from __future__ import annotations

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
        using = self._using
        if self.toolset.confirm_delete:
            # A transaction of its own: no row is locked while the user is asked.
            with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
                row = locked(self.reader, frame, value, using, "delete")
                # An overridden deletion may do anything: nothing is known before.
                is_known = not self.is_overridden
                cascade = self._permitted_cascade(frame, row) if is_known else Cascade({}, {})
            self._confirm(frame, value, cascade)
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            row = locked(self.reader, frame, value, using, "delete")
            deleted = self._delete(frame, row, using)
        return {key: value, "deleted": _counts(deleted)}

    def _delete(self, frame: Frame, row: Any, using: str) -> Rows:
        """Delete the row, and return the deleted rows.

        The method of a toolset may keep the row, and its dependent rows. If it does not, the
        caller needs the same permissions as for any deletion.
        """
        consequences = Cascade({}, {})
        refusal: ToolError | None = None
        try:
            consequences = self._permitted_cascade(frame, row)
        except ToolError as error:
            if not self.is_overridden:
                raise
            refusal = error
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

    @property
    def _using(self) -> str:
        return router.db_for_write(self.toolset.model)

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
        sentences = []
        totals = []
        for verb, rows in (("deletes", consequences.deleted), ("changes", consequences.changed)):
            totals.append(str(sum(map(len, rows.values()))))
            if rows:
                counts = ", ".join(f"{entry['count']} {entry['name']}" for entry in _counts(rows))
                sentences.append(f"This {verb} {counts}.")
        # Where more rows have come meanwhile, the user is asked again.
        key = "_".join(["delete", *totals])
        try:
            answer = frame.client.elicit(question + " ".join(sentences), FORM, key=key)
        except MissingClientCapability as error:
            raise ToolError(
                "Nothing was deleted: the user must confirm it, and this client cannot ask them."
            ) from error
        if not answer.accepted or not answer.content["delete"]:
            raise ToolError("Nothing was deleted: the user did not confirm it.")


def _counts(rows: Rows) -> list[dict[str, Any]]:
    """Return how many rows there are of each model, by its verbose name."""
    counts = []
    for model, of_model in rows.items():
        options = model._meta
        name = options.verbose_name if len(of_model) == 1 else options.verbose_name_plural
        counts.append({"name": str(name), "count": len(of_model)})
    return counts
