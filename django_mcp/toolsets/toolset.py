"""ModelToolset: a model as tools and resources, as its class declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Model, QuerySet

from django_mcp.components.base import ConfigurationError
from django_mcp.toolsets import access, components
from django_mcp.toolsets.base import BaseToolset

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.server.server import Server


class ModelToolset(BaseToolset):
    """Offers the rows of a model as tools and resources.

    Derive from it in an ``mcp.py``. Only what is listed can be reached: ``fields`` are the values
    that callers receive, ``filter_fields`` the lookups by which they filter, and so on. Names with
    ``__`` lead over relations to a single row. Callers need Django's permissions of the model, and
    see the rows of ``get_queryset``. One instance serves all calls: keep no state on it.
    """

    def get_related_queryset(self, frame: Frame, model: type[Model]) -> QuerySet[Any]:
        """Return the rows of a related model that the caller may see by a path to them.

        By default they are the rows that all toolsets of ``model`` on this server show to the
        caller. Without such a toolset, they are all rows if the caller may view the model.
        """
        return access.related_queryset(self, frame, model)

    @classmethod
    def __mcp_register__(cls, server: Server) -> None:
        """Register the tools and resources; a class without ``model`` is a base of others."""
        if getattr(cls, "model", None) is not None:
            cls().register(cls.server or server)

    def register(self, server: Server) -> None:
        """Register the tools and resources; raises ConfigurationError for a wrong declaration."""
        if not (isinstance(self.model, type) and issubclass(self.model, Model)):
            raise ConfigurationError(
                f"{type(self).__qualname__}.model is {self.model!r}: give a model"
            )
        for component in components.build(self, server):
            server.components.add(component)
        access.add(server, self)
