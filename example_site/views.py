"""The front page, which tells people where the MCP servers are."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from django_mcp import registry


def home(request: HttpRequest) -> HttpResponse:
    """The MCP servers with their addresses, and the way to the admin."""
    servers = [
        {"info": server.info, "url": request.build_absolute_uri(server.path)}
        for server in registry.servers()
    ]
    return render(request, "example_site/home.html", {"servers": servers})
