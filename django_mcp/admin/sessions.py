"""Sessions in the admin, without their secrets, and the last calls of clients that have none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.admin import actions
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_mcp import registry, stores
from django_mcp.core.protocol.limits import cut
from django_mcp.models import McpSession, Stream
from django_mcp.pubsub import session_messages
from django_mcp.pubsub.session_messages import OUTBOX
from django_mcp.runtime import pools
from django_mcp.runtime.read_only_admin import (
    ReadOnlyAdmin,
    as_json,
    caller_of,
    keys_of_names_with,
    user_names_of,
)
from django_mcp.stores.base import digest

USER_SCHEMES = frozenset({"django_session", "oauth", "rest_framework", "token"})
"""The schemes with the primary key of the user as subject of their principals."""


@admin.register(McpSession)
class McpSessionAdmin(ReadOnlyAdmin):
    list_display = ("client", "user", "server", "version", "used_at", "open_streams", "created_at")
    list_filter = ("server", "version")
    search_fields = ("principal",)
    search_help_text = _("Searches names of users and principals.")
    ordering = ("-used_at",)
    fields = (
        "client",
        "user_page",
        "principal",
        "server_page",
        "version",
        "created_at",
        "used_at",
        "open_streams",
        "subscriptions",
        "capabilities",
    )
    actions = ("delete_selected",)
    change_list_template = "admin/django_mcp/mcpsession/sessions.html"

    # Columns. Data beside the rows of a list is read once for all rows.

    @admin.display(description=_("client"))
    def client(self, session: McpSession) -> str:
        info = _data(session).get("client_info") or {}
        return cut(f"{info.get('name', '')} {info.get('version', '')}".strip()) or "-"

    @admin.display(description=_("user"), ordering="principal")
    def user(self, session: McpSession) -> Any:

        if not hasattr(session, "user_name"):
            _add_facts([session])
        return session.user_name or caller_of(session.principal)

    @admin.display(description=_("user"))
    def user_page(self, session: McpSession) -> Any:
        return self.user_link(session, _user_key(session.principal), self.user(session))

    @admin.display(description=_("server"))
    def server_page(self, session: McpSession) -> Any:
        return self.link(session, "django_mcp.mcpserver", session.server, session.server)

    @admin.display(description=_("open streams"))
    def open_streams(self, session: McpSession) -> int | None:
        """The number of streams that a client receives now; None if it is unknown."""
        if not hasattr(session, "stream_count"):
            _add_facts([session])
        return session.stream_count

    @admin.display(description=_("subscriptions"))
    def subscriptions(self, session: McpSession) -> str:
        return "\n".join(sorted(_data(session).get("subscriptions", ()))) or "-"

    @admin.display(description=_("capabilities of the client"))
    def capabilities(self, session: McpSession) -> str:
        return as_json(_data(session).get("client_capabilities") or {})

    @admin.action(description=_("End selected sessions"), permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return actions.delete_selected(self, request, queryset)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether there is a table of sessions, or a log of calls, that the user may see."""
        # Imported for the page that somebody looks at.
        from django_mcp.admin import call_numbers

        is_used = _are_in_table() or call_numbers.are_visible(request)
        return is_used and super().has_module_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpSession]:
        from django_mcp.stores.database import live

        store = stores.sessions()
        sessions = McpSession.objects.using(getattr(store, "using", None))
        return sessions.filter(live(store)) if _are_in_table() else sessions.none()

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        rows, may_repeat = super().get_search_results(request, queryset, search_term)
        for key in keys_of_names_with(search_term) if search_term else ():
            rows |= queryset.filter(_of_user(key))
        return rows, may_repeat

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        _add_facts([*changelist.result_list])
        return changelist

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        from django_mcp.admin import call_numbers

        shows_calls = call_numbers.are_visible(request)
        context = {
            **(extra_context or {}),
            "stateless": call_numbers.stateless_clients() if shows_calls else None,
            "calls_url": call_numbers.list_url(self.admin_site),
            "are_in_table": _are_in_table(),
        }
        return super().changelist_view(request, context)

    # The end of a session.

    def delete_model(self, request: HttpRequest, obj: McpSession) -> None:
        self.delete_queryset(request, self.get_queryset(request).filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[McpSession]) -> None:
        ended = list(queryset.values_list("server", "pk", "principal"))
        queryset.delete()
        servers = {server.name: server for server in registry.servers()}
        # On this thread: another one would wait for the transaction that this one may be in.
        with pools.on_this_thread():
            for name, address, principal in ended:
                async_to_sync(session_messages.session_ended)(servers.get(name), address, principal)


def _are_in_table() -> bool:
    from django_mcp.stores.database import DatabaseSessionStore

    return isinstance(stores.sessions(), DatabaseSessionStore)


def _data(session: McpSession) -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(session.data)
    return data


def _add_facts(sessions: Sequence[McpSession]) -> None:
    """Read the users and the streams of these sessions, in one query each."""
    names = user_names_of(_user_key(session.principal) for session in sessions)
    streams = _open_streams([session.pk for session in sessions])
    for session in sessions:
        session.user_name = names.get(_user_key(session.principal), "")
        session.stream_count = None if streams is None else streams.get(session.pk, 0)


def _user_key(principal: str) -> str:
    """Return the primary key of a principal's user as a string; "" if it does not name any."""
    scheme, _colon, subject = principal.partition(":")
    return subject.partition(" ")[0] if scheme in USER_SCHEMES else ""


def _of_user(key: str) -> Q:
    """The condition for sessions of the user with this key, the inverse of ``_user_key``."""
    condition = Q()
    for scheme in USER_SCHEMES:
        principal = f"{scheme}:{key}"
        condition |= Q(principal=principal) | Q(principal__startswith=f"{principal} ")
    return condition


def _open_streams(addresses: Sequence[str]) -> dict[str, int] | None:
    """Return the number of open streams by session; None if they are not in the database."""
    from django_mcp.stores.database import DatabaseEventStore, to_datetime
    from django_mcp.transports.http.session.active_stream import ACTIVE

    store = stores.events()
    if not isinstance(store, DatabaseEventStore):
        return None
    # No client receives these.
    own = [digest(address, name) for address in addresses for name in (OUTBOX, ACTIVE)]
    oldest = to_datetime(store.now() - store.stream_lifetime(closed=False))
    rows = Stream.objects.using(store.using).filter(
        session__in=addresses, closed=False, touched_at__gt=oldest
    )
    counted = rows.exclude(pk__in=own).values_list("session").annotate(number=Count("pk"))
    return dict(counted)
