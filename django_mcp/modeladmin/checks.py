"""System checks of the tools of an admin: URLs, models, forms and middleware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from django_mcp import registry
from django_mcp.modeladmin import declaration
from django_mcp.modeladmin.models import Models
from django_mcp.openapi.calls import view_middleware


@register("django_mcp")
def check_admins(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    for server in registry.servers():
        for models in declaration.of_server(server):
            messages += _unmounted(models)
            messages += _unregistered(models)
            messages += _unusable(models)
    return [*messages, *_skipped_middleware()]


def _skipped_middleware() -> Iterator[CheckMessage]:
    servers = [server for server in registry.servers() if declaration.of_server(server)]
    skipped: list[str] = []
    with suppress(ImproperlyConfigured):  # Settings have a check of their own.
        skipped = view_middleware.skipped(servers)
    if skipped:
        yield Warning(
            "Calls of the admin's tools skip this middleware, which requests of a browser go "
            f"through: {', '.join(skipped)}.",
            hint=view_middleware.HINT,
            id="django_mcp_modeladmin.W004",
        )


def _unmounted(models: Models) -> Iterator[CheckMessage]:
    try:
        reverse(f"{models.site.name}:index")
    except NoReverseMatch:
        yield Warning(
            f"The admin {models.site.name!r}, whose tools a server has, has no URLs: its views "
            "cannot redirect, so nothing can be saved.",
            hint='Add path("admin/", admin.site.urls) to the URLs of the site.',
            id="django_mcp_modeladmin.W001",
        )


def _unregistered(models: Models) -> Iterator[CheckMessage]:
    offered = [*models.all()]
    labels = {each.opts.label for each in offered} | {each.opts.app_label for each in offered}
    if missing := [name for name in models.include if name not in labels]:
        yield Warning(
            f"admin_tools includes {', '.join(missing)}, which the admin {models.site.name!r} does "
            "not have.",
            hint="Register a ModelAdmin, or remove the name from include.",
            id="django_mcp_modeladmin.W002",
        )


class EverybodysUser:
    """A user with all permissions, for the forms of a check. It is in no database."""

    pk = 0
    is_active = is_staff = is_superuser = is_authenticated = True
    is_anonymous = False

    def has_perm(self, *_: Any) -> bool:
        return True

    has_perms = has_module_perms = has_perm


def _unusable(models: Models) -> Iterator[CheckMessage]:
    request = HttpRequest()
    request.method = "GET"
    request.user = EverybodysUser()  # type: ignore[assignment]
    for model_admin in models.all():
        try:
            model_admin.get_fieldsets(request)
            model_admin.get_form(request)
            model_admin.get_inline_instances(request)
        except Exception as error:
            where = f"{type(model_admin).__module__}.{type(model_admin).__qualname__}"
            yield Warning(
                f"{where} has no form for the request of a tool: {type(error).__name__}: {error}",
                hint="List the middleware that sets what it reads of the request in "
                'DJANGO_MCP["VIEW_MIDDLEWARE"], and silence this check, which runs none, or '
                "exclude the model. Silence it, too, if the form needs a user of the database.",
                id="django_mcp_modeladmin.W003",
            )
