"""Active sessions in the admin, without their secrets."""

from __future__ import annotations

import json
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.admin import actions
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_mcp import registry, stores
from django_mcp.models import McpSession
from django_mcp.protocol.limits import cut
from django_mcp.pubsub import publisher
from django_mcp.runtime import pools
from django_mcp.runtime.read_only_admin import ReadOnlyAdmin
from django_mcp.stores.database import DatabaseSessionStore, live


@admin.register(McpSession)
class McpSessionAdmin(ReadOnlyAdmin):
    list_display = ("principal", "server", "version", "client", "created_at", "used_at")
    list_filter = ("server", "version")
    search_fields = ("principal",)
    ordering = ("-used_at",)
    fields = list_display
    actions = ("delete_selected",)

    @admin.display(description=_("client"))
    def client(self, session: McpSession) -> str:
        info = json.loads(session.data).get("client_info") or {}
        return cut(f"{info.get('name', '')} {info.get('version', '')}".strip())

    @admin.action(description=_("End selected sessions"), permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return actions.delete_selected(self, request, queryset)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Only if the session store uses this table, which is empty otherwise."""
        is_used = isinstance(stores.sessions(), DatabaseSessionStore)
        return is_used and super().has_module_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpSession]:
        store = stores.sessions()
        sessions = McpSession.objects.using(getattr(store, "using", None))
        return sessions.filter(live(store))

    def delete_model(self, request: HttpRequest, obj: McpSession) -> None:
        self.delete_queryset(request, self.get_queryset(request).filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[McpSession]) -> None:
        ended = list(queryset.values_list("server", "pk", "principal"))
        queryset.delete()
        servers = {server.name: server for server in registry.servers()}
        # On this thread: another one would wait for the transaction that this one may be in.
        with pools.thread_sensitive():
            for name, address, principal in ended:
                async_to_sync(publisher.session_ended)(servers.get(name), address, principal)
