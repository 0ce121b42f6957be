"""Tasks in the admin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.admin import users
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.runtime.read_only_admin import ReadOnlyAdmin, as_json
from django_mcp.tasks import port as tasks
from django_mcp.tasks import store as task_store


@admin.register(McpTask)
class McpTaskAdmin(ReadOnlyAdmin):
    """Tasks that have not expired. Arguments are not shown: they may be secret."""

    list_display = ("tool", "server", "status", "owner_name", "created_at", "ended_at")
    list_filter = ("status", "server", "tool")
    search_fields = ("principal", "tool")
    search_help_text = _("Searches names of users and tools, and principals.")
    ordering = ("-created_at",)
    fields = (
        "tool",
        "server",
        "status",
        "status_message",
        "owner_name",
        "version",
        "created_at",
        "started_at",
        "updated_at",
        "ended_at",
        "expires_at",
        "lease_until",
        "outcome_text",
    )
    actions = ("cancel_selected",)

    class Media:
        css = {"all": ["django_mcp/admin.css"]}

    @admin.display(description=_("owner"), ordering="principal")
    def owner_name(self, task: McpTask) -> str:
        if not hasattr(task, "user_name"):
            _add_user_names([task])
        return f"{task.user_name} ({task.principal})" if task.user_name else task.principal

    @admin.display(description=_("result"))
    def outcome_text(self, task: McpTask) -> str | None:
        try:
            outcome = task_store.outcome_of(task)
        except ValueError:
            return str(_("It cannot be decrypted."))
        return as_json(outcome) if outcome else None

    @admin.action(description=_("Cancel selected tasks"), permissions=["delete"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[McpTask]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        # On this thread: another one would wait for the transaction that this one may be in.
        with pools.thread_sensitive():
            count = sum(async_to_sync(tasks.cancel)(key) for key in keys)
        text = ngettext("%d task was cancelled.", "%d tasks were cancelled.", count) % count
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpTask]:
        return task_store.live(super().get_queryset(request))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        _add_user_names([*changelist.result_list])
        return changelist

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        rows, may_repeat = super().get_search_results(request, queryset, search_term)
        if search_term:
            rows |= queryset.filter(user_key__in=users.keys_of_names_with(search_term))
        return rows, may_repeat


def _add_user_names(rows: Sequence[McpTask]) -> None:
    """Read the users of these tasks, in one query."""
    names = users.names_of(task.user_key for task in rows)
    for task in rows:
        task.user_name = names.get(task.user_key, "")
