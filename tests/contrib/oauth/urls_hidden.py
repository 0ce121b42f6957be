"""The URLs of a site which includes the authorization server behind those of the toolkit."""

from django.urls import include, path

urlpatterns = [
    path("o/", include("oauth2_provider.urls")),
    path("", include("django_mcp.contrib.oauth.urls")),
]
