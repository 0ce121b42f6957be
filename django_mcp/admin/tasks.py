"""Tasks in the admin."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

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
    search_fields = ("principal", "user_key", "tool")
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
        if not task.user_key:
            return task.principal
        user = get_user_model()._default_manager.filter(pk=task.user_key).first()
        return task.principal if user is None else f"{user} ({task.principal})"

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
