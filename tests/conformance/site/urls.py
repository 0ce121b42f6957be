"""The pages of the site: the authorization server, and the login."""

from django.contrib.auth.views import LoginView
from django.urls import include, path

urlpatterns = [
    path("", include("django_mcp.contrib.oauth.urls")),
    path("login/", LoginView.as_view(template_name="login.html"), name="login"),
]
