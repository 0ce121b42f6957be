"""The pages of the site: the front page, the access tokens of users, and the admin."""

from django.contrib import admin
from django.urls import include, path

from example_site.views import home

urlpatterns = [
    path("", home, name="home"),
    path("tokens/", include("django_mcp.tokens.urls")),
    path("admin/", admin.site.urls),
]
