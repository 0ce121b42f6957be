"""The URLs of a site which includes the authorization server in the wrong place."""

from django.urls import include, path

urlpatterns = [path("accounts/", include("django_mcp.contrib.oauth.urls"))]
