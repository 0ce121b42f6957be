"""The page where users see their webhooks, and end them.

To change it, override the templates in ``django_mcp_events/``, or subclass the views.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.generic import ListView, View

from django_mcp.contrib.events import interest
from django_mcp.contrib.events.models import Status, Subscription, SubscriptionQuerySet
from django_mcp.core.auth import base
from django_mcp.runtime.around import tenants
from django_mcp.runtime.pages import ProtectedPage

MAX_LISTED = 500


class OwnSubscriptions(LoginRequiredMixin):
    request: HttpRequest

    def own_subscriptions(self) -> SubscriptionQuerySet:
        """Return the subscriptions of the user who is logged in, at the tenant of the page."""
        rows = Subscription.objects.current().filter(user_key=str(self.request.user.pk))
        rows = rows.exclude(status__in=(Status.ENDING, Status.ENDED))
        if tenants.function() is None:
            return rows
        tenant = tenants.of_request(self.request)
        if not tenant:
            return rows.exclude(principal__regex=base.OF_ANY_TENANT)
        return rows.filter(principal__startswith=base.beginning_of(tenant))


class SubscriptionsView(ProtectedPage, OwnSubscriptions, ListView):  # type: ignore[type-arg]
    """The webhooks of the user's programs."""

    template_name = "django_mcp_events/list.html"
    context_object_name = "subscriptions"

    def get_queryset(self) -> Any:
        return self.own_subscriptions()[:MAX_LISTED]


class EndSubscriptionView(ProtectedPage, OwnSubscriptions, View):
    """Ends one of the user's own subscriptions."""

    http_method_names = ["post", "options"]

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        get_object_or_404(self.own_subscriptions(), pk=pk).terminate()
        interest.HERE.forget()
        return redirect("django_mcp_events:list")
