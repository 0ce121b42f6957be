"""The app configurations: McpConfig discovers each app's ``mcp.py``, SimpleMcpConfig does not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings

if TYPE_CHECKING:
    from django_mcp.core.components.base import Component
    from django_mcp.core.components.declaration import ViewPermission
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server


class SimpleMcpConfig(AppConfig):
    """django_mcp without discovery, for sites which register their servers explicitly."""

    name = "django_mcp"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These modules import models, so that they can be imported only now.
        from django_mcp import checks, log
        from django_mcp.auth.cache import PrincipalCache
        from django_mcp.core.frame.frame import Frame
        from django_mcp.core.server.in_process import InProcessCalls
        from django_mcp.core.server.notifications import Notifications
        from django_mcp.core.server.tasks import Tasks
        from django_mcp.pubsub import model_changes, revocations
        from django_mcp.pubsub.publisher import ChannelsPublisher
        from django_mcp.runtime.django_types import requests as django_requests
        from django_mcp.tasks.port import DjangoTasks
        from django_mcp.transports.http import not_mounted
        from django_mcp.transports.in_process import DjangoInProcessCaller

        checks.register()
        PrincipalCache.subscribe = staticmethod(revocations.subscribe)
        revocations.connect()
        _convert_values()
        Notifications.publisher = ChannelsPublisher()
        Frame.django_request_of = staticmethod(django_requests.of_frame)
        _surround_handlers()
        not_mounted.install()
        if settings.DEBUG and sys.argv[1:2] == ["runserver"]:
            log.print_calls()
        _add_companions()
        InProcessCalls.caller = DjangoInProcessCaller()
        model_changes.observe_models()
        Tasks.port = DjangoTasks()
        _keep_house()


def _convert_values() -> None:
    """Let components take and return the values of Django, and raise its exceptions."""
    from django_mcp.core.components import arguments, declaration, responses, serializers, stored
    from django_mcp.core.dispatch import invocation
    from django_mcp.core.frame.client import input_requests
    from django_mcp.core.server import failures
    from django_mcp.runtime.django_types import arguments as django_arguments
    from django_mcp.runtime.django_types import exceptions as django_exceptions
    from django_mcp.runtime.django_types import forms as django_forms
    from django_mcp.runtime.django_types import values as django_values

    stored.MODULE_CHECKS[:] = [_is_installed]
    declaration.VIEW_PERMISSIONS[:] = [_has_permission]
    # The adapter of bytes stays the first.
    arguments.ADAPTERS[:] = django_arguments.ADAPTERS
    arguments.CONVERSIONS.update(django_arguments.CONVERSIONS)
    serializers.BUILT_IN.update(django_values.TABLE)
    serializers.SITE_TABLES[:] = [django_values.site_table]
    serializers.clear_cache()
    responses.TEMPLATE_RENDERERS[:] = [django_values.render]
    responses.MAX_FILE_SIZES[:] = [django_values.max_file_size]
    failures.BUILT_IN.update(django_exceptions.FAILURES)
    invocation.QUERY_RUNNERS[:] = [django_values.run_queries]
    input_requests.FORM_READERS[:] = [django_forms.input_schema_of]


def _surround_handlers() -> None:
    from django_mcp.core.dispatch import invocation
    from django_mcp.runtime import atomic_requests, context_managers

    invocation.AROUND_HANDLER[:] = [atomic_requests.transactions, context_managers.around_call]


def _keep_house() -> None:
    from django_mcp import stores
    from django_mcp.pubsub import publisher
    from django_mcp.runtime import housekeeping
    from django_mcp.tasks import store as tasks
    from django_mcp.tasks import submission

    prunings = [stores.prune_sessions, stores.prune_events, tasks.prune]
    housekeeping.STEPS[:] = [publisher.renew_logs, *prunings, submission.submit_unstarted]
    housekeeping.CLAIMS[:] = [stores.claim]


def _add_companions() -> None:
    from django_mcp.core.dispatch import tool_search
    from django_mcp.core.server import components

    for add in (tool_search.add, _add_page):
        if add not in components.COMPANIONS:
            components.COMPANIONS.append(add)


def _add_page(server: Server, component: Component) -> None:
    if getattr(component, "view", None) is None:
        return
    # Imported by sites that have a view only, with its forms.
    from django_mcp.ui import pages

    pages.add_page(server, component)


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
