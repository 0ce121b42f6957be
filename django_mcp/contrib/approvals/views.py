"""The pages where people approve and decline calls, and where callers see theirs.

To change them, override the templates in ``django_mcp_approvals/``, or subclass the views.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.generic import FormView, ListView

from django_mcp import registry
from django_mcp.contrib.approvals import subjects
from django_mcp.contrib.approvals.answers import readable
from django_mcp.contrib.approvals.models import (
    MAX_COMMENT,
    Approval,
    ApprovalQuerySet,
    Decision,
    Phase,
)
from django_mcp.core.auth import base
from django_mcp.core.protocol.tasks import Status
from django_mcp.runtime.around import tenants
from django_mcp.runtime.pages import ProtectedPage
from django_mcp.tasks import store, submission


class DecisionForm(forms.Form):
    """A decision on one approval, with the fingerprint of the arguments that the user has seen."""

    comment = forms.CharField(
        label=gettext_lazy("Comment"),
        required=False,
        max_length=MAX_COMMENT,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("The caller and their program can read it."),
    )
    digest = forms.CharField(widget=forms.HiddenInput)


def _at_tenant(request: HttpRequest) -> ApprovalQuerySet:
    """The approvals of the tenant that a page is for, where the site has tenants."""
    rows = Approval.objects.all()
    if tenants.function() is None:
        return rows
    tenant = tenants.of_request(request)
    if not tenant:
        return rows.exclude(principal__regex=base.OF_ANY_TENANT)
    return rows.filter(principal__startswith=base.beginning_of(tenant))


class ApprovalListView(ProtectedPage, LoginRequiredMixin, ListView):  # type: ignore[type-arg]
    """The calls that wait for a decision of this user, and this user's own calls."""

    template_name = "django_mcp_approvals/list.html"
    context_object_name = "approvals"
    paginate_by = 50

    def get_queryset(self) -> ApprovalQuerySet:
        """Return the calls that wait and that this user has the permission to decide on."""
        waiting = _at_tenant(self.request).waiting()
        permissions = waiting.order_by().values_list("permission", flat=True).distinct()
        own = [name for name in permissions if self.request.user.has_perm(name)]
        # With four eyes, users do not decide about their own calls, or calls of nobody.
        others = waiting.exclude(four_eyes=True, user_key__in=("", str(self.request.user.pk)))
        return others.filter(permission__in=own).with_arguments().order_by("created_at")

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        own = _at_tenant(self.request).filter(user_key=str(self.request.user.pk))
        own.settle()
        own = own.with_arguments()[: self.paginate_by]
        context = super().get_context_data(own=own, **context)
        for row in [*context["approvals"], *own]:
            row.shown_arguments = readable(row)
            row.subject = subjects.of(row, self.request.user)
        return context


# A decision is committed before the call is submitted.
@method_decorator(transaction.non_atomic_requests, name="dispatch")
class ApprovalView(ProtectedPage, LoginRequiredMixin, FormView):  # type: ignore[type-arg]
    """One call: for those who may decide on it, and for its caller."""

    template_name = "django_mcp_approvals/detail.html"
    form_class = DecisionForm
    row: Approval

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return self.handle_no_permission()
        self.row = self.find(kwargs["pk"])
        return super().dispatch(request, *args, **kwargs)

    def find(self, key: str) -> Approval:
        """Return the approval; raises Http404 for one that this user may not see."""
        if "\0" in key:
            raise Http404
        rows = _at_tenant(self.request).filter(pk=key)
        rows.settle()
        row = rows.current().first()
        if row is None or not self.may_see(row):
            raise Http404
        return row

    def may_see(self, row: Approval) -> bool:
        user = self.request.user
        return row.is_caller(user) or user.has_perm(row.permission)

    def get_initial(self) -> dict[str, Any]:
        return {"digest": self.row.digest}

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        row = self.row
        user = self.request.user
        is_waiting = row.status == Status.WAITING
        return super().get_context_data(
            approval=row,
            server_title=title_of(row.server),
            arguments=readable(row),
            subject=subjects.of(row, user),
            path_params=captured(row),
            is_waiting=is_waiting,
            can_decide=is_waiting and row.may_decide(user),
            is_own_call=row.is_caller(user),
            is_running=row.phase in (Phase.APPROVED, Phase.RUNNING),
            can_run=row.is_unstarted and is_stuck(row),
            **context,
        )

    def form_valid(self, form: DecisionForm) -> HttpResponse:
        row = self.row
        if "run" in self.request.POST and row.is_unstarted:
            submission.follow(submit=[row.pk])
            return self.back()
        decision = DECISIONS.get(self.request.POST.get("decision", ""))
        if decision is None or not constant_time_compare(form.cleaned_data["digest"], row.digest):
            form.add_error(None, _("This form is not complete. Nothing was decided."))
            return self.form_invalid(form)
        comment = form.cleaned_data["comment"]
        user = self.request.user
        if not row.decide_on_page(user, decision, comment=comment, where="page"):
            text = _("You cannot decide on this call, or it was decided before.")
            # On the next page, where the site has Django's messages.
            messages.warning(self.request, text, fail_silently=True)
        return self.back()

    def back(self) -> HttpResponse:
        return redirect(self.request.path)


class OwnApprovalView(ApprovalView):
    """The page for a client that was sent here: of its user's own call only (ELIC-37)."""

    def may_see(self, row: Approval) -> bool:
        return row.is_caller(self.request.user)


DECISIONS: Mapping[str, Decision] = {str(decision): decision for decision in Decision}
"""The decisions by the value of the button."""


def title_of(name: str) -> str:
    """Return the title of a server, or its name where it has none or does not exist any more."""
    try:
        return str(registry.get(name).info.get("title") or name)
    except LookupError:
        return name


def captured(row: Approval) -> list[tuple[str, str]]:
    """Return the captured values of the path, such as the tenant of the call."""
    try:
        return [*row.path_params.items()]
    except ValueError:
        return []


def is_stuck(row: Approval) -> bool:
    """Whether a call should have started by now: its process, or its broker, may have failed."""
    return row.decided_at is not None and row.decided_at < timezone.now() - store.START_TIME
