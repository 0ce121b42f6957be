"""URL patterns: ``path("events/", include("django_mcp.contrib.events.urls"))``."""

from __future__ import annotations

from django.urls import path

from django_mcp.contrib.events.views import EndSubscriptionView, SubscriptionsView

app_name = "django_mcp_events"

urlpatterns = [
    path("", SubscriptionsView.as_view(), name="list"),
    path("<slug:pk>/end/", EndSubscriptionView.as_view(), name="end"),
]
