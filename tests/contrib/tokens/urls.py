"""A site that has the page of tokens and no other page for users."""

from django.urls import include, path

urlpatterns = [path("tokens/", include("django_mcp.contrib.tokens.urls"))]
