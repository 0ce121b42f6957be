"""The admin of approvals: read-only, with actions that decide as the pages do."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_mcp.contrib.approvals.models import (
    MAX_COMMENT,
    Approval,
    ApprovalQuerySet,
    Decision,
    follow_decisions,
)
from django_mcp.core.protocol.tasks import Status
from django_mcp.runtime.pages import page_url
from django_mcp.runtime.read_only_admin import NOTHING, ReadOnlyAdmin
from django_mcp.tasks.store import Changed

LIST_WIDTH = 150
"""Characters of arguments in the list."""


class CommentForm(ActionForm):
    comment = forms.CharField(label=_("Comment"), required=False, max_length=MAX_COMMENT)


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    """Everybody with the view permission sees who called and decided; the arguments are shown to
    those who may approve them."""

    list_display = (
        "title",
        "arguments_text",
        "server",
        "caller_name",
        "phase_text",
        "created_at",
        "decided_by_name",
        "decided_at",
    )
    list_filter = ("status", "server", "tool", "created_at")
    search_fields = ("title", "tool", "caller_name", "decided_by_name", "digest")
    date_hierarchy = "created_at"
    change_list_template = "admin/django_mcp/change_list.html"
    action_form = CommentForm
    actions = ("approve", "decline")
    fields = (
        "title",
        "tool_page",
        "server",
        "caller_page",
        "client",
        "task_page",
        "subject_page",
        "arguments_table",
        "digest",
        "permission",
        "four_eyes",
        "phase_text",
        "page",
        "created_at",
        "lease_until",
        "decided_by_page",
        "decided_at",
        "decided_in",
        "comment",
        "started_at",
        "ended_at",
        "error",
    )
    readonly_fields = fields
    optional_fields = (
        "client",
        "subject_page",
        "page",
        "decided_by_page",
        "decided_at",
        "decided_in",
        "comment",
        "started_at",
        "ended_at",
        "error",
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        Approval.objects.all().settle()
        rows: Any = super().get_queryset(request)
        is_list = request.resolver_match is None or "object_id" not in request.resolver_match.kwargs
        if not is_list:
            return rows
        permissions = rows.order_by().values_list("permission", flat=True).distinct()
        own = [name for name in permissions if request.user.has_perm(name)]
        shows = ExpressionWrapper(Q(permission__in=own or [""]), output_field=BooleanField())
        return rows.with_arguments().annotate(shows_arguments=shows)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return the row with the permission of this user to see its arguments."""
        row: Any = super().get_object(request, object_id, from_field)
        if row is not None:
            row.shows_arguments = request.user.has_perm(row.permission)
        return row

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Decisions are kept: ``mcp_prune`` deletes them after APPROVAL_RETENTION."""
        return False

    @admin.display(description=_("tool"))
    def tool_page(self, row: Approval) -> Any:
        return self.tool_link(row)

    @admin.display(description=_("caller"))
    def caller_page(self, row: Approval) -> Any:
        return self.user_link(row, row.user_key, row.caller_name)

    @admin.display(description=_("decided by"))
    def decided_by_page(self, row: Approval) -> Any:
        return self.user_link(row, row.decided_by, row.decided_by_name) or NOTHING

    @admin.display(description=_("object"))
    def subject_page(self, row: Any) -> Any:
        # Imported for the page that somebody looks at.
        from django_mcp.contrib.approvals import subjects

        subject = subjects.of(row, row.reader) if row.shows_arguments else None
        if subject is None:
            return NOTHING
        if not subject.url:
            return subject.label
        return format_html('<a href="{}">{}</a>', subject.url, subject.label)

    @admin.display(description=_("task"))
    def task_page(self, row: Approval) -> Any:
        return self.link(row, "django_mcp.mcptask", row.pk, _("its task"))

    @admin.display(description=_("decision"))
    def page(self, row: Approval) -> Any:
        """The page where somebody decides, while the call waits."""
        url = page_url("django_mcp_approvals:detail", pk=row.pk)
        if url is None or row.status != Status.WAITING:
            return NOTHING
        return format_html('<a href="{}">{}</a>', url, _("Open the page"))

    @admin.display(description=_("error"))
    def error(self, row: Approval) -> str:
        """The text that the caller receives of a call that failed."""
        if not row.is_error:
            return NOTHING
        text = row.error_text or row.phase_text
        return format_html('<span class="mcp-error mcp-value">✗ {}</span>', text)

    @admin.display(description=_("status"), ordering="status")
    def phase_text(self, row: Approval) -> str:
        return row.phase_text

    @admin.display(description=_("arguments"))
    def arguments_text(self, row: Approval) -> str:
        from django_mcp.contrib.approvals.answers import readable
        from django_mcp.contrib.approvals.views import captured

        pairs = readable(row) if getattr(row, "shows_arguments", False) else None
        text = ", ".join(f"{name}: {value}" for name, value in [*captured(row), *(pairs or [])])
        return Truncator(text).chars(LIST_WIDTH)

    @admin.display(description=_("arguments"))
    def arguments_table(self, row: Approval) -> str:
        from django_mcp.contrib.approvals.answers import readable
        from django_mcp.contrib.approvals.views import captured

        if not getattr(row, "shows_arguments", False):
            return format_html("<em>{}</em>", _("Only those who may approve the call see them."))
        pairs = readable(row)
        if pairs is None:
            return format_html("<em>{}</em>", _("They cannot be decrypted any more."))
        cells = '<tr><th scope="row">{}</th><td class="mcp-value">{}</td></tr>'
        return format_html(
            "<table>{}</table>", format_html_join("", cells, [*captured(row), *pairs])
        )

    @admin.action(description=_("Approve selected calls"))
    def approve(self, request: HttpRequest, queryset: ApprovalQuerySet) -> None:
        self._decide(request, queryset, Decision.APPROVE)

    @admin.action(description=_("Decline selected calls"))
    def decline(self, request: HttpRequest, queryset: ApprovalQuerySet) -> None:
        self._decide(request, queryset, Decision.DECLINE)

    def _decide(self, request: HttpRequest, queryset: ApprovalQuerySet, decision: Decision) -> None:
        comment = request.POST.get("comment", "")
        decided: list[Changed] = []
        left = 0
        try:
            for row in queryset:
                changed = row.decide(request.user, decision, comment=comment, where="admin")
                if changed is None:
                    left += 1
                else:
                    decided.append(changed)
        finally:
            follow_decisions(decided)
        count = len(decided)
        if count:
            text = ngettext("%d call was decided.", "%d calls were decided.", count)
            self.message_user(request, text % count, messages.SUCCESS)
        if left:
            text = ngettext(
                "%d call was not decided: you may not, or it does not wait any more.",
                "%d calls were not decided: you may not, or they do not wait any more.",
                left,
            )
            self.message_user(request, text % left, messages.WARNING)
