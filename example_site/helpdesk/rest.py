"""A server whose tools are the views of the REST API."""

from django_mcp import Server
from django_mcp.rest import rest_tools
from example_site.helpdesk.api import TicketViewSet

server = Server(
    "helpdesk-api",
    title="Helpdesk API",
    instructions="The REST API of the helpdesk. Begin with ticket_list and its search.",
)

rest_tools(
    TicketViewSet,
    actions=["list", "retrieve", "create", "partial_update", "destroy", "reopen"],
    server=server,
    options={"reopen": {"serializer": None, "destructive": False}},
)
