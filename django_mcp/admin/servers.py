"""Servers in the admin: their URLs, their components, and the findings of mcp_doctor."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_mcp import registry, stores
from django_mcp.admin.registry_rows import RegistryAdmin, Rows
from django_mcp.core.server.server import Server
from django_mcp.models import McpServer, McpSession
from django_mcp.pubsub import switches

TEMPLATE = "admin/django_mcp/server/page.html"


def row(server: Server) -> McpServer:
    made = McpServer(name=server.name, path=registry.path(server))
    made.server = server
    return made


@admin.register(McpServer)
class McpServerAdmin(RegistryAdmin):
    list_display = ("name", "path", "title", "authenticators", "components", "revisions")
    actions = None
    sortable_by = ()

    @admin.display(description=_("title"))
    def title(self, row: McpServer) -> str:
        return str(row.server.info.get("title") or "")

    @admin.display(description=_("authenticators"))
    def authenticators(self, row: McpServer) -> str:
        # Imported for the page that somebody looks at.
        from django_mcp.admin import server_page

        return ", ".join(server_page.authenticators(row.server))

    @admin.display(description=_("components"))
    def components(self, row: McpServer) -> int:
        return sum(1 for _component in row.server.components.all())

    @admin.display(description=_("revisions"))
    def revisions(self, row: McpServer) -> str:
        from django_mcp.admin import server_page

        served = server_page.versions(row.server)
        return served[0] if len(served) == 1 else f"{served[-1]} – {served[0]}"

    def get_queryset(self, request: HttpRequest) -> Any:
        return Rows(map(row, registry.mountable()))

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        switches.refresh_safely()
        return next((item for item in self.get_queryset(request) if item.pk == object_id), None)

    def get_urls(self) -> list[Any]:
        examine = self.admin_site.admin_view(require_POST(self.examine_view))
        name = "django_mcp_mcpserver_examine"
        return [path("<path:object_id>/examine/", examine, name=name), *super().get_urls()]

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        return self._page(request, obj, context)

    def examine_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of a server, with the findings of mcp_doctor."""
        from django_mcp.admin import server_page

        if not self.has_view_permission(request):
            raise PermissionDenied
        server = self.get_object(request, unquote(object_id))
        url = None if server is None else server_page.url_of(server.server, request)
        if url is None:
            raise Http404
        # Imported here: each process has this admin, and few of them examine a server.
        from django_mcp.management import examination

        return self._page(request, server, {"sections": examination.for_page(url)})

    def _page(self, request: HttpRequest, row: McpServer, context: Any) -> HttpResponse:
        from django_mcp.admin import server_page

        server = row.server
        url = server_page.url_of(server, request)
        shown = {
            **context,
            "title": server.name,
            "subtitle": None,
            "original": row,
            "quoted_key": quote(row.pk),
            "facts": server_page.facts(server, url),
            "counts": server_page.counts(server),
            "groups": server_page.groups(server),
            "instructions": server_page.instructions(server),
            "may_examine": url is not None,
            "shows_components": request.user.has_perm("django_mcp.view_component"),
            "sessions": _open_sessions(request, server),
        }
        return self.page(request, TEMPLATE, shown)


def _open_sessions(request: HttpRequest, server: Server) -> int | None:
    """Return the number of open sessions; None if it is unknown, or the user may not see it."""
    from django_mcp.stores.database import DatabaseSessionStore, live

    store = stores.sessions()
    may_view = request.user.has_perm("django_mcp.view_mcpsession")
    if not may_view or not isinstance(store, DatabaseSessionStore):
        return None
    return McpSession.objects.using(store.using).filter(live(store), server=server.name).count()
