"""The app configurations: McpConfig discovers each app's ``mcp.py``, SimpleMcpConfig does not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

if TYPE_CHECKING:
    from django_mcp.core.components.declaration import ViewPermission
    from django_mcp.core.frame.frame import Frame
    from django_mcp.extensions import Extension


class SimpleMcpConfig(AppConfig):
    """django_mcp without discovery, for sites which register their servers explicitly."""

    name = "django_mcp"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        if not apps.is_installed("django.contrib.auth"):
            raise ImproperlyConfigured(
                'django_mcp needs the users of Django: add "django.contrib.auth" and '
                '"django.contrib.contenttypes" to INSTALLED_APPS.'
            )
        # These modules import models, so that they can be imported only now.
        from django_mcp import checks, log
        from django_mcp.core.components import serializers
        from django_mcp.pubsub import model_changes, revocations
        from django_mcp.transports.http import paths

        checks.register()
        revocations.connect()
        _fill_ports()
        serializers.clear_cache()
        paths.name_remedies()
        if settings.DEBUG and sys.argv[1:2] == ["runserver"]:
            log.print_calls()
        _install_extensions()
        setting_changed.connect(_on_setting_changed, dispatch_uid="django_mcp.extensions")
        model_changes.observe_models()


def _fill_ports() -> None:
    """Fill what the layers below use: the one table of ports, from components to threads."""
    from django_mcp import stores
    from django_mcp.auth import cache
    from django_mcp.core.components import arguments, declaration, responses, serializers, stored
    from django_mcp.core.dispatch import invocation
    from django_mcp.core.frame import frame
    from django_mcp.core.frame.client import input_requests
    from django_mcp.core.server import failures, in_process, notifications
    from django_mcp.pubsub import publisher, revocations
    from django_mcp.runtime import context_managers, housekeeping, pools, request_thread
    from django_mcp.runtime.django_types import arguments as django_arguments
    from django_mcp.runtime.django_types import exceptions, forms, requests, values
    from django_mcp.transports.in_process import DjangoInProcessCaller

    arguments.ADAPTERS.fill(django_arguments.ADAPTERS)
    arguments.CONVERSIONS.fill(django_arguments.CONVERSIONS)
    serializers.BUILT_IN.fill(values.TABLE)
    failures.BUILT_IN.fill(exceptions.FAILURES)
    stored.IS_STORABLE.fill(_is_installed)
    declaration.VIEW_PERMISSION.fill(_has_permission)
    serializers.SITE_TABLE.fill(values.site_table)
    responses.TEMPLATE_RENDERER.fill(values.render)
    responses.MAX_FILE_SIZE.fill(values.max_file_size)
    frame.DJANGO_REQUEST.fill(requests.of_frame)
    input_requests.DJANGO_FORM_READER.fill(forms.reader_of)
    in_process.CALLER.fill(DjangoInProcessCaller())
    invocation.RUN_QUERIES.fill(values.run_queries)
    around = [context_managers.transactions, context_managers.around_call]
    invocation.AROUND_HANDLER.fill(around)
    cache.SUBSCRIBE.fill(revocations.subscribe)
    notifications.PUBLISHER.fill(publisher.ChannelsPublisher())
    pools.END_WORK.fill(request_thread.abandon_all)
    housekeeping.CLAIM.fill(stores.claim)
    housekeeping.STEPS.fill([publisher.renew_logs, stores.prune_sessions, stores.prune_events])


def _install_extensions() -> None:
    """Install the extensions of this package, and then those of the apps."""
    from django_mcp import extensions

    extensions.install([*_own_extensions(), *extensions.of_apps()])


def _own_extensions() -> list[Extension]:
    from django_mcp.tasks import extension as tasks
    from django_mcp.tool_search import extension as tool_search
    from django_mcp.ui import extension as ui

    return [tool_search.EXTENSION, ui.EXTENSION, tasks.EXTENSION]


def _on_setting_changed(*, setting: str, **_: Any) -> None:
    """Keep to the apps where a test changes them: they get ready only once."""
    if setting == "INSTALLED_APPS":
        _install_extensions()


def _has_permission(declared: ViewPermission, frame: Frame) -> Any:
    # REST framework is imported by sites that declare such a permission only.
    from django_mcp.rest.calls import permissions

    return permissions.has_permission(declared, frame)


def _is_installed(module: str) -> bool:
    return apps.get_containing_app_config(module) is not None


class McpConfig(SimpleMcpConfig):
    """django_mcp as ``INSTALLED_APPS`` usually has it: it imports each app's ``mcp`` module."""

    default = True

    def ready(self) -> None:
        from django_mcp import registry

        super().ready()
        registry.discover()
