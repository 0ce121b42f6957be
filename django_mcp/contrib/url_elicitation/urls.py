"""The ready pages: ``path("mcp/", include("django_mcp.contrib.url_elicitation.urls"))``."""

from __future__ import annotations

from django.urls import path

from django_mcp.contrib.url_elicitation.questions import QuestionView
from django_mcp.contrib.url_elicitation.views import ElicitationFormView

app_name = "django_mcp_elicitation"

urlpatterns = [
    path("form/<str:token>/", ElicitationFormView.as_view(), name="form"),
    path("question/<str:task_id>/", QuestionView.as_view(), name="question"),
]
