"""The URLs of a site with the authorization server."""

from django.contrib.auth.views import LoginView
from django.urls import include, path

urlpatterns = [
    path("", include("django_mcp.contrib.oauth.urls")),
    path("accounts/login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
]
