from django.urls import path

from shop.mcp import server

urlpatterns = [path("mcp/", server.urls)]
