"""The pages of the site: the front page and the admin."""

from django.contrib import admin
from django.urls import path

from example_site.views import home

urlpatterns = [
    path("", home, name="home"),
    path("admin/", admin.site.urls),
]
