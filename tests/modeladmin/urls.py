"""The URLs of the example site, and a second admin."""

from django.urls import include, path

from tests.modeladmin import backstage

urlpatterns = [path("", include("example_site.urls")), *backstage.urlpatterns]
