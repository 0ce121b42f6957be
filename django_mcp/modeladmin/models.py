"""The models of an admin that its tools offer, and their names for callers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from django.apps import apps
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.exceptions import NotRegistered
from django.core.exceptions import FieldDoesNotExist
from django.db.models.constants import LOOKUP_SEP

from django_mcp.core.components.base import ConfigurationError, listed
from django_mcp.core.protocol import texts
from django_mcp.core.protocol.errors import ToolError
from django_mcp.runtime.django_types.fields import is_hash

if TYPE_CHECKING:
    from django.http import HttpRequest

AnyModelAdmin: TypeAlias = "ModelAdmin[Any]"


OF_CALLERS = frozenset(
    {
        *("django_mcp", "django_mcp_approvals", "django_mcp_oauth", "django_mcp_tokens"),
        *("authtoken", "oauth2_provider"),
    }
)
"""Apps that are offered only if ``include`` names them: a caller who may approve calls, or make
tokens, could approve their own calls, or stay after they are sent away."""

DECIDED_BY_PEOPLE = frozenset({"django_mcp_approvals"})
"""Apps that tools only read, also if ``include`` names them: a program that calls tools in the name
of somebody could otherwise approve calls that wait for this person."""


@dataclass(frozen=True, slots=True)
class Models:
    """The registered models of a site, as far as they are included and not excluded."""

    site: AdminSite
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    reads_only: bool = False
    """Whether there are no tools that change anything."""

    def find(self, request: HttpRequest, label: str) -> AnyModelAdmin:
        """Return the ModelAdmin of a model; raises ToolError for an unknown one."""
        model_admin = self.registered(label)
        if model_admin is None:
            raise self.unknown(request, label)
        return model_admin

    def unknown(self, request: HttpRequest, label: str) -> ToolError:
        """Return the error for a model that the admin does not have, or hides from the caller."""
        names = [name for name, _ in self.visible(request)]
        remedy = texts.did_you_mean(label, names, "see the list of models.")
        return ToolError(f"There is no model {label[:80]!r} in this admin: {remedy}")

    def registered(self, label: str) -> AnyModelAdmin | None:
        """Return the ModelAdmin of a model that is offered, or None."""
        try:
            model = apps.get_model(label)
        except (LookupError, ValueError):
            return None
        return self.of_model(model)

    def of_model(self, model: Any) -> AnyModelAdmin | None:
        """Return the ModelAdmin of a model class, if it is offered."""
        try:
            model_admin = self.site.get_model_admin(model)
        except NotRegistered:
            return None
        return model_admin if self._is_offered(model) else None

    def all(self) -> Iterator[AnyModelAdmin]:
        """Yield all that are offered, whoever asks."""
        for model in apps.get_models():
            if (model_admin := self.of_model(model)) is not None:
                yield model_admin

    def named(self) -> list[str]:
        """Return the labels of all models, if ``include`` has them one by one; else none."""
        if not all("." in name for name in self.include):
            return []
        return [name for name in self.include if self._is_offered(apps.get_model(name))]

    def visible(self, request: HttpRequest) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the models of the index page of the admin, with the permissions of the caller."""
        for app in self.site.get_app_list(request):
            for entry in app["models"]:
                model = entry.get("model")
                if model is not None and self.of_model(model) is not None:
                    yield model._meta.label, entry

    def is_read_only(self, model_admin: AnyModelAdmin) -> bool:
        """Whether tools only read a model, whatever the caller may do in a browser."""
        return self.only_reads_rows(model_admin.model)

    def only_reads_rows(self, model: Any) -> bool:
        """Whether tools only read the rows of a model, also those of an inline."""
        return self.reads_only or model._meta.app_label in DECIDED_BY_PEOPLE

    def shows_rows(self, model: Any) -> bool:
        """Whether the page of another model shows the rows of a model as an inline.

        ``include`` names the models with pages, and their inlines belong to these pages.
        """
        names = _names_of(model)
        if not names.isdisjoint(self.exclude):
            return False
        return model._meta.app_label not in OF_CALLERS or not names.isdisjoint(self.include)

    def may(self, model_admin: AnyModelAdmin, perms: Mapping[str, bool]) -> list[str]:
        """Return the names of permissions of the caller that tools can use."""
        reads_only = self.is_read_only(model_admin)
        names = [name for name, allowed in perms.items() if allowed]
        return [name for name in names if name == "view"] if reads_only else names

    def is_visible(self, request: HttpRequest, model_admin: AnyModelAdmin) -> bool:
        """Whether the index page of the admin shows a model to the caller."""
        if not model_admin.has_module_permission(request):
            return False
        return any(model_admin.get_model_perms(request).values())

    def is_known(self, request: HttpRequest, model_admin: AnyModelAdmin, pk: Any) -> bool:
        """Whether the caller may do anything with a model, or see the object with this key."""
        if any(model_admin.get_model_perms(request).values()):
            return True
        is_key = pk is not None and "\0" not in str(pk)
        obj = model_admin.get_object(request, str(pk)) if is_key else None
        return obj is not None and model_admin.has_view_or_change_permission(request, obj)

    def _is_offered(self, model: Any) -> bool:
        names = _names_of(model)
        if not names.isdisjoint(self.exclude):
            return False
        if self.include:
            return not names.isdisjoint(self.include)
        return model._meta.app_label not in OF_CALLERS


def without_hashes(model_admin: AnyModelAdmin) -> AnyModelAdmin:
    """Return a copy of a ModelAdmin that does not search the hashes of passwords.

    A caller who finds a user by the beginning of the hash could read it letter by letter.
    """
    limited: Any = copy.copy(model_admin)
    names_to_search = limited.get_search_fields

    def get_search_fields(request: HttpRequest) -> list[Any]:
        names = names_to_search(request)
        return [each for each in names if not leads_to_hash(limited.opts, str(each).lstrip("^=@"))]

    limited.get_search_fields = get_search_fields
    return limited  # type: ignore[no-any-return]


def leads_to_hash(model_options: Any, name: str) -> bool:
    """Whether a name of the ORM is, or begins with, the hash of a password."""
    return any(map(is_hash, fields_on_path(model_options, name)))


def fields_on_path(model_options: Any, name: str) -> list[Any]:
    """Return the fields of models that a name of the ORM begins with."""
    fields: list[Any] = []
    for part in name.split(LOOKUP_SEP):
        try:
            field = model_options.pk if part == "pk" else model_options.get_field(part)
        except FieldDoesNotExist:
            break
        fields.append(field)
        if not getattr(field, "path_infos", None):
            break
        model_options = field.path_infos[-1].to_opts
    return fields


def _names_of(model: Any) -> set[str]:
    """Return the names by which ``include`` and ``exclude`` mean a model."""
    return {model._meta.app_label, model._meta.label}


def checked_names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return app labels and labels of models; raises ConfigurationError for an unknown one."""
    checked = listed(option, names)
    labels = {config.label for config in apps.get_app_configs()}
    labels |= {model._meta.label for model in apps.get_models()}
    for name in checked:
        if name not in labels:
            otherwise = 'write "app_label" or "app_label.Model"'
            remedy = texts.did_you_mean(name, labels, otherwise)
            raise ConfigurationError(
                f"{option} has {name!r}, which is no app and no model: {remedy}"
            )
    return checked
