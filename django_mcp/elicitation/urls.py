"""URL patterns of the ready page: ``path("mcp/", include("django_mcp.elicitation.urls"))``."""

from __future__ import annotations

from django.urls import path

from django_mcp.elicitation.views import ElicitationFormView

app_name = "django_mcp_elicitation"

urlpatterns = [path("form/<str:token>/", ElicitationFormView.as_view(), name="form")]
