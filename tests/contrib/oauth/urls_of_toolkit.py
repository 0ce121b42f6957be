"""The URLs of a site which includes those of the toolkit, not ours."""

from django.urls import include, path

urlpatterns = [path("o/", include("oauth2_provider.urls"))]
