"""URL patterns of the pages: ``path("tokens/", include("django_mcp.contrib.tokens.urls"))``."""

from __future__ import annotations

from django.urls import path

from django_mcp.contrib.tokens.views import RevokeTokenView, TokensView

app_name = "django_mcp_tokens"

urlpatterns = [
    path("", TokensView.as_view(), name="list"),
    path("<int:pk>/revoke/", RevokeTokenView.as_view(), name="revoke"),
]
