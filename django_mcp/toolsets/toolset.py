"""ModelToolset: a model as tools and resources, as its class declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import Model, QuerySet

from django_mcp.core.components.base import Component, ConfigurationError, Problems, check_names
from django_mcp.core.components.signature import check_call
from django_mcp.core.server.server import checked_server
from django_mcp.toolsets import access, components
from django_mcp.toolsets.base import BaseToolset

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server


class ModelToolset(BaseToolset):
    """Offers the rows of a model as tools and resources.

    Derive from it in an ``mcp.py``. Only listed fields can be reached: ``fields`` are the values
    that callers receive, ``filter_fields`` the lookups they filter by, and so on. Names with
    ``__`` lead over relations to a single row. Callers need Django's permissions of the model, and
    see the rows of ``get_queryset``. One instance serves all calls: keep no state on it.
    """

    def get_related_queryset(self, frame: Frame, model: type[Model]) -> QuerySet[Any]:
        """Return the rows of a related model that the caller may see by a path to them.

        By default, the rows that the toolsets of ``model`` on this server show to the caller;
        without any, all rows if the caller may view the model.
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
        checked_server(server, type(self).__qualname__)
        problems = Problems()
        with problems.noted():
            self._check_permissions()
        with problems.noted():
            self._check_options()
        problems.raise_all()
        built: list[Component] = []
        with problems.noted():
            self._check_names()
        for name, given in METHODS.items():
            with problems.noted():
                self._check_method(name, given)
        with problems.noted():
            built += components.build(self)
        problems.raise_all()
        for component in built:
            server.components.add(component)
        access.add(server, self)

    def _check_method(self, name: str, given: Sequence[str]) -> None:
        """Raise ConfigurationError for a method that cannot be called as it will be."""
        takes_kwargs = name == "get_form"
        parameters = ", ".join(["self", *given, *(["**kwargs"] if takes_kwargs else [])])
        check_call(
            getattr(self, name),
            f"{type(self).__qualname__}.{name}",
            *given,
            keywords=("data", "instance") if takes_kwargs else (),
            remedy=f"let its parameters be ({parameters})",
            must_be_sync=True,
        )

    def _check_permissions(self) -> None:
        """Raise ConfigurationError unless permissions are a dict by operation, or None."""
        if self.permissions is not None and not isinstance(self.permissions, Mapping):
            raise ConfigurationError(
                f"{type(self).__qualname__}.permissions is {self.permissions!r}: write the "
                'permission of each operation, such as {"list": "login_required", "get": '
                '"login_required"}'
            )

    def _check_options(self) -> None:
        """Raise ConfigurationError unless options are dicts by operation."""
        is_dict = isinstance(self.options, Mapping)
        if not is_dict or not all(isinstance(each, Mapping) for each in self.options.values()):
            raise ConfigurationError(
                f"{type(self).__qualname__}.options is {self.options!r}: write the options of each "
                'operation, such as {"delete": {"title": "Remove"}}'
            )

    def _check_names(self) -> None:
        """Raise ConfigurationError for names that would limit nothing, as if they were hooks."""
        values = [*(self.permissions or {}).values()]
        for options in self.options.values():
            values += [*options.values(), *(options.get("complete") or {}).values()]
        check_names(
            type(self),
            ModelToolset,
            is_strict=True,
            also_known=["model"],
            used=values,
            elsewhere=ELSEWHERE,
        )


METHODS: Mapping[str, Sequence[str]] = {
    "get_queryset": ("frame",),
    "has_object_permission": ("frame", "obj", "operation"),
    "get_form": ("frame", "form_class"),
    "perform_create": ("frame", "form"),
    "perform_update": ("frame", "form"),
    "perform_delete": ("frame", "instance"),
    "get_related_queryset": ("frame", "model"),
}
"""The methods that a toolset may override, and what they are called with."""
ELSEWHERE = {
    "queryset": "a method 'get_queryset'",
    "permission_classes": "'permissions'",
    "get_permissions": "'permissions'",
    "permission": "'permissions'",
    "has_permission": "'permissions' or a method 'has_object_permission'",
    "authentication_classes": "the authenticators of the server",
    "throttle_classes": "RateLimit among the middleware of the server",
    "scopes": "'options'",
    "perform_destroy": "'perform_delete'",
    "serializer_class": "'fields' and 'write_fields'",
    "exclude": "'fields'",
    "list_display": "'fields'",
    "filterset_fields": "'filter_fields'",
    "list_filter": "'filter_fields'",
    "filterset_class": "'filter_fields'",
    "pagination_class": "'page_size'",
    "paginate_by": "'page_size'",
    "lookup_field": "'key'",
    "Meta": "its attributes in the class itself",
}
"""The names of attributes in REST framework and in the admin, and their names here."""
