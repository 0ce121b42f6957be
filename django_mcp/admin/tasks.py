"""Tasks in the admin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp import conf
from django_mcp.core.protocol.tasks import Status
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.runtime.read_only_admin import (
    NOTHING,
    ReadOnlyAdmin,
    as_json,
    caller_of,
    keys_of_names_with,
    user_names_of,
)
from django_mcp.tasks import store as task_store
from django_mcp.tasks import submission
from django_mcp.tasks.run import worker_of

WAITING = Q(status=Status.WORKING, started_at__isnull=True)
"""Tasks that no worker has started."""


@admin.register(McpTask)
class McpTaskAdmin(ReadOnlyAdmin):
    """Tasks that have not expired. Arguments are not shown: they may be secret."""

    list_display = ("tool", "server", "status", "worker", "owner_name", "created_at", "ended_at")
    list_filter = ("status", "server", "tool")
    search_fields = ("principal", "tool")
    search_help_text = _("Searches names of users and tools, and principals.")
    ordering = ("-created_at",)
    fields = (
        "tool_page",
        "server",
        "status",
        "status_message",
        "worker",
        "owner_page",
        "approval_page",
        "version",
        "created_at",
        "started_at",
        "updated_at",
        "ended_at",
        "expires_at",
        "lease_until",
        "outcome_text",
    )
    optional_fields = ("status_message", "worker", "approval_page", "started_at", "ended_at")
    actions = ("cancel_selected", "submit_selected")
    change_list_template = "admin/django_mcp/mcptask/change_list.html"

    @admin.display(description=_("owner"), ordering="principal")
    def owner_name(self, task: McpTask) -> Any:
        if not hasattr(task, "user_name"):
            _add_user_names([task])
        if not task.user_name:
            return caller_of(task.principal)
        return f"{task.user_name} ({task.principal})"

    @admin.display(description=_("owner"))
    def owner_page(self, task: McpTask) -> Any:
        return self.user_link(task, task.user_key, self.owner_name(task))

    @admin.display(description=_("tool"))
    def tool_page(self, task: McpTask) -> Any:
        return self.tool_link(task)

    @admin.display(description=_("approval"))
    def approval_page(self, task: McpTask) -> Any:
        if not task.needs_approval:
            return NOTHING
        return self.link(task, "django_mcp_approvals.approval", task.pk, _("its approval"))

    @admin.display(description=_("worker"))
    def worker(self, task: McpTask) -> Any:
        """The host and the process that run it, or that it waits for one."""
        if task.status not in task_store.ACTIVE:
            return NOTHING
        if task.started_at is None:
            return _("waits for a worker") if task.status == Status.WORKING else NOTHING
        return worker_of(task.lease_owner)

    @admin.display(description=_("result"))
    def outcome_text(self, task: McpTask) -> str:
        try:
            outcome = task_store.outcome_of(task)
        except ValueError:
            return str(_("It cannot be decrypted."))
        return as_json(outcome) if outcome else NOTHING

    @admin.action(description=_("Cancel selected tasks"), permissions=["delete"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[McpTask]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        # On this thread: another one would wait for the transaction that this one may be in.
        with pools.on_this_thread():
            count = sum(async_to_sync(submission.cancel)(key) for key in keys)
        text = ngettext("%d task was cancelled.", "%d tasks were cancelled.", count) % count
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    @admin.action(description=_("Submit again what waits for a worker"), permissions=["delete"])
    def submit_selected(self, request: HttpRequest, queryset: QuerySet[McpTask]) -> None:
        """Submit tasks again if their messages may be lost. Each of them starts only once."""
        keys = list(queryset.filter(WAITING).values_list("pk", flat=True))
        count = len(keys)
        if count:  # It starts a thread.
            submission.follow(submit=keys)
        text = ngettext("%d task was submitted again.", "%d tasks were submitted again.", count)
        self.message_user(request, text % count, messages.SUCCESS if count else messages.WARNING)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        active = self.get_queryset(request).filter(status__in=task_store.ACTIVE)
        numbers = active.aggregate(
            waiting=Count("pk", filter=WAITING),
            running=Count("pk", filter=Q(started_at__isnull=False)),
        )
        context = {**(extra_context or {}), **numbers, "runner": conf.get().task_runner.path}
        return super().changelist_view(request, context)

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
            rows |= queryset.filter(user_key__in=keys_of_names_with(search_term))
        return rows, may_repeat


def _add_user_names(rows: Sequence[McpTask]) -> None:
    """Read the users of these tasks, in one query."""
    names = user_names_of(task.user_key for task in rows)
    for task in rows:
        task.user_name = names.get(task.user_key, "")
