"""The front page, which lists the MCP servers."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from django_mcp import registry


def home(request: HttpRequest) -> HttpResponse:
    """List the MCP servers with their URLs, and link to the admin."""
    servers = [
        {"info": server.info, "url": request.build_absolute_uri(registry.path(server))}
        for server in registry.servers()
    ]
    return render(request, "example_site/home.html", {"servers": servers})
