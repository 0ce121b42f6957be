"""Deleting rows: what else would go, whether the caller may delete that, and asking the user."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import NestedObjects
from django.db import IntegrityError, router, transaction
from django.db.models import Model, QuerySet

from django_mcp.protocol.errors import MissingClientCapability, ToolError
from django_mcp.toolsets import access
from django_mcp.toolsets.base import BaseToolset
from django_mcp.toolsets.queries.statement_time import limited
from django_mcp.toolsets.reading import Reader
from django_mcp.toolsets.schemas import Arguments
from django_mcp.toolsets.writes import locked

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame

FORM = {
    "type": "object",
    "properties": {"delete": {"type": "boolean", "title": "Delete"}},
    "required": ["delete"],
}


class TooManyRows(Exception):
    """More rows would be deleted than the toolset allows."""


class Collector(NestedObjects):
    """The rows that a deletion would take along, up to a number of each model."""

    def __init__(self, using: str, most: int) -> None:
        super().__init__(using=using, origin=None)
        self.most = most

    def related_objects(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().related_objects(*args, **kwargs)
        if len(rows.order_by().values("pk")[: self.most + 1]) > self.most:
            raise TooManyRows
        return rows


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
            found = locked(self.reader, frame, value, using, "delete")
            rows = self._collect(frame, found)
            try:
                with transaction.atomic(using=using):
                    found.delete()
            except IntegrityError as error:
                raise self._has_dependents() from error
        return {key: value, "deleted": _described(rows)}

    @property
    def _using(self) -> str:
        return router.db_for_write(self.toolset.model)

    def _look(self, frame: Frame, value: Any) -> Counter[type[Model]]:
        """Return what would be deleted, without keeping the row locked."""
        using = self._using
        with transaction.atomic(using=using), limited(using, self.toolset.statement_timeout):
            found = locked(self.reader, frame, value, using, "delete")
            return self._collect(frame, found)

    def _collect(self, frame: Frame, found: Any) -> Counter[type[Model]]:
        """Count the rows that would be deleted; raises ToolError if the caller may not do that."""
        collector = Collector(self._using, self.toolset.max_deleted)
        try:
            collector.collect([found])
        except TooManyRows as error:
            raise ToolError(
                f"More than {self.toolset.max_deleted:,} other rows would be deleted as well."
            ) from error
        if collector.protected:
            raise self._has_dependents()
        rows: Counter[type[Model]] = Counter()
        found_rows: Any = collector.model_objs  # By model; the stubs have names.
        for model, instances in found_rows.items():
            if model._meta.auto_created:
                continue
            rows[model] += len(instances)
            if model is not type(found) and not self._may_delete(frame, model, instances):
                raise self._has_dependents()
        return rows

    def _may_delete(self, frame: Frame, model: type[Model], instances: Any) -> bool:
        """Whether the caller may delete these other rows, and sees all of them."""
        if self.toolset.permissions is not None and not access.may(
            frame, access.model_permission(model, "delete")
        ):
            return False
        keys = {each.pk for each in instances}
        rows = self.toolset.get_related_queryset(frame, model)
        return rows.filter(pk__in=keys).count() == len(keys)

    def _has_dependents(self) -> ToolError:
        return ToolError(
            f"This {self.reader.name} cannot be deleted: other rows depend on it, which you may "
            "not delete."
        )

    def _confirm(self, frame: Frame, value: Any, rows: Counter[type[Model]]) -> None:
        """Ask the user; raises ToolError unless they agree."""
        others = [f"{each['count']} {each['name']}" for each in _described(rows)]
        message = f"Delete the {self.reader.name} {value}? Deleted are: {', '.join(others)}."
        try:
            # Where more rows have come meanwhile, the user is asked again.
            answer = frame.client.elicit(message, FORM, key=f"delete_{rows.total()}")
        except MissingClientCapability as error:
            raise ToolError(
                "Nothing was deleted: the user must confirm it, and this client cannot ask them."
            ) from error
        if not answer.accepted or not answer.content["delete"]:
            raise ToolError("Nothing was deleted: the user did not confirm it.")


def _described(rows: Counter[type[Model]]) -> list[dict[str, Any]]:
    def name(model: type[Model], count: int) -> str:
        options = model._meta
        return str(options.verbose_name if count == 1 else options.verbose_name_plural)

    return [{"name": name(model, count), "count": count} for model, count in rows.items()]
