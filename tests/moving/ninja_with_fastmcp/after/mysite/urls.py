from django.urls import path

from shop.api import api

urlpatterns = [path("api/", api.urls)]
