"""The front page: the MCP servers, how to connect to them, and what to ask."""

from typing import Any

from django.views.generic import TemplateView

from django_mcp import registry
from django_mcp.management.client_configuration import CLIENTS, Endpoint
from django_mcp.runtime.pages import ProtectedPage

SHOWN = ("claude-code", "claude-desktop", "vscode", "cursor", "codex")
"""The programs whose configuration the page shows."""
QUESTIONS = (
    "Which open tickets mention the printer? Summarise them.",
    "Show me the numbers of the helpdesk for this month.",
    "Set the priority of ticket 1 to high.",
    "Refund ticket 1, and tell me when somebody has approved it.",
    "Which of my tickets has waited longest? Draft an answer.",
)


class Home(ProtectedPage, TemplateView):
    """Each server with its URL, and the configuration of clients for the first one."""

    template_name = "example_site/home.html"

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        servers = [
            {"info": server.info, "url": self.request.build_absolute_uri(registry.path(server))}
            for server in registry.servers()
        ]
        endpoint = Endpoint(name="helpdesk", url=str(servers[0]["url"]))
        clients = [
            {"title": client.title, "place": client.http_place, "text": client.http(endpoint)}
            for client in (CLIENTS[name] for name in SHOWN)
        ]
        return super().get_context_data(
            servers=servers, clients=clients, questions=QUESTIONS, **context
        )
