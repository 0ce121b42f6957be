"""The front page: the MCP servers, how to connect to them, and what to ask."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from django_mcp import registry
from django_mcp.management.client_configuration import CLIENTS, Endpoint

SHOWN = ("claude-code", "claude-desktop", "vscode", "cursor", "codex")
"""The programs whose configuration the page shows."""
QUESTIONS = (
    "Which open tickets mention the printer? Summarise them.",
    "Show me the numbers of the helpdesk for this month.",
    "Set the priority of ticket 1 to high.",
    "Refund ticket 1, and tell me when somebody has approved it.",
    "Which of my tickets has waited longest? Draft an answer.",
)


def home(request: HttpRequest) -> HttpResponse:
    """Show each server with its URL, and the configuration of clients for the first one."""
    servers = [
        {"info": server.info, "url": request.build_absolute_uri(registry.path(server))}
        for server in registry.servers()
    ]
    endpoint = Endpoint(name="helpdesk", url=servers[0]["url"])
    clients = [
        {"title": client.title, "place": client.http_place, "text": client.http(endpoint)}
        for client in (CLIENTS[name] for name in SHOWN)
    ]
    context = {"servers": servers, "clients": clients, "questions": QUESTIONS}
    return render(request, "example_site/home.html", context)
