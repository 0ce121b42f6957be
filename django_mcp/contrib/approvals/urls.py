"""URL patterns: ``path("approvals/", include("django_mcp.contrib.approvals.urls"))``."""

from __future__ import annotations

from django.urls import path

from django_mcp.contrib.approvals.views import ApprovalListView, ApprovalView, OwnApprovalView

app_name = "django_mcp_approvals"

urlpatterns = [
    path("", ApprovalListView.as_view(), name="list"),
    path("<str:pk>/", ApprovalView.as_view(), name="detail"),
    path("<str:pk>/own/", OwnApprovalView.as_view(), name="own"),
]
