"""The pages of the site: front page, login, tokens, consents, the REST API and the admin."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from example_site.helpdesk import api
from example_site.views import Home

login = LoginView.as_view(template_name="example_site/login.html")

urlpatterns = [
    path("", Home.as_view(), name="home"),
    path("login/", login, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("tokens/", include("django_mcp.contrib.tokens.urls")),
    path("api/", include(api.urls)),
    path("elicitation/", include("django_mcp.contrib.url_elicitation.urls")),
    path("approvals/", include("django_mcp.contrib.approvals.urls")),
    path("events/", include("django_mcp.contrib.events.urls")),
    # The authorization server, whose metadata clients look for at the root.
    path("", include("django_mcp.contrib.oauth.urls")),
    path("admin/", admin.site.urls),
]
