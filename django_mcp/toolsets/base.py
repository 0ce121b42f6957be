"""The declaration of a toolset: its attributes with their defaults, and methods to override.

This module does not know the components that are made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Model, QuerySet
from django.forms import BaseModelForm

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server


class BaseToolset(ABC):
    """The attributes and methods of a ``ModelToolset``."""

    model: ClassVar[type[Model]]
    server: ClassVar[Server | None] = None
    """The server that offers the tools; None: the default server."""

    operations: ClassVar[Sequence[str]] = ("list", "get")
    """Of "list", "get", "count", "aggregate", "create", "update" and "delete"."""
    fields: ClassVar[Sequence[str]] = ()
    """The fields of a row that callers receive."""
    filter_fields: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The lookups of each field that callers may filter by."""
    search_fields: ClassVar[Sequence[str]] = ()
    """The texts that ``search`` looks for words in."""
    ordering_fields: ClassVar[Sequence[str]] = ()
    """The fields that callers may sort by."""
    ordering: ClassVar[Sequence[str]] = ()
    """The default ordering, with "-" before a name for descending; the key decides among equals."""
    group_fields: ClassVar[Sequence[str]] = ()
    """The fields that ``aggregate`` may group by; dates by year, quarter, month, week or day."""
    aggregate_fields: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The functions "sum", "avg", "min" and "max" that callers may apply, by field."""
    write_fields: ClassVar[Sequence[str] | None] = None
    """The fields that callers may write; None: the model's own editable ones of ``fields``."""
    form_class: ClassVar[type[BaseModelForm[Any]] | None] = None
    """The form that validates and saves; None: one with ``write_fields``."""
    key: ClassVar[str | None] = None
    """The unique field that identifies a row for callers; None: the first one in ``fields``."""

    name: ClassVar[str | None] = None
    """The name of one row in the names of tools, such as "ticket"; None: the name of the model."""
    name_plural: ClassVar[str | None] = None
    """The name of several rows, such as "tickets"."""
    uri_scheme: ClassVar[str | None] = None
    """The scheme of the resource of a row; None: the name, "" for no resources."""
    permissions: ClassVar[Mapping[str, Any] | None] = {}
    """Other permissions than the model's, by operation; None: nobody needs any.

    They concern ``model`` alone, and never related models.
    """
    options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Further options of the tools, by operation, such as ``{"delete": {"scopes": [...]}}``."""
    group: ClassVar[str | None] = None
    """The group of the components, which selects them for a connection."""
    confirm_delete: ClassVar[bool] = False
    """Whether the user is asked before a row is deleted."""

    ui: ClassVar[bool] = False
    """Whether hosts that render views show a list as a table, which sorts, searches and pages."""

    page_size: ClassVar[int] = 20
    max_page_size: ClassVar[int] = 100
    max_groups: ClassVar[int] = 100
    max_text: ClassVar[int] = 1_000
    """Characters of a text in a list; longer ones are cut."""
    max_characters: ClassVar[int] = 50_000
    """Characters of the values of one answer, about: a list ends early, and texts are cut."""
    max_deleted: ClassVar[int] = 1_000
    """Rows of one relation that may be deleted or changed together with a row."""
    statement_timeout: ClassVar[float] = 5.0
    """Seconds of one statement in the database."""

    def get_queryset(self, frame: Frame) -> QuerySet[Any]:
        """Return the rows that the caller may see; they limit every operation."""
        return self.model._default_manager.all()

    def has_object_permission(self, frame: Frame, obj: Any, operation: str) -> bool:
        """Return whether the caller may "get", "create", "update" or "delete" this row.

        A row that they may not "get" does not exist for them. Rows that a deletion takes along are
        asked for, too. Lists, counts and aggregates do not call it: limit them by ``get_queryset``.
        """
        return True

    def get_form(self, frame: Frame, form_class: type[BaseModelForm[Any]], **kwargs: Any) -> Any:
        """Return the form that validates and saves; override it to pass it more."""
        return form_class(**kwargs)

    def perform_create(self, frame: Frame, form: Any) -> Any:
        """Save the row of a valid form; override it to set fields that callers do not write.

        Set attributes of ``form.instance``, and then call ``form.save()``. Return the saved row if
        it is another one.
        """
        form.save()

    def perform_update(self, frame: Frame, form: Any) -> Any:
        """Save the changes of a valid form; override it as ``perform_create``."""
        form.save()

    def perform_delete(self, frame: Frame, instance: Any) -> None:
        """Delete a row; override it to do something else, such as to mark it as deleted.

        Then ``get_queryset`` has to leave it out. If the row is gone afterwards, the caller needs
        the permissions for all rows that were deleted or changed with it; otherwise the call is
        rolled back.
        """
        instance.delete()

    @abstractmethod
    def get_related_queryset(self, frame: Frame, model: type[Model]) -> QuerySet[Any]:
        """Return the rows of a related model that the caller may see by a path to them."""
