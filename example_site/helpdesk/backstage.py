"""A server for the staff, whose tools are the admin."""

from django_mcp import Server
from django_mcp.modeladmin import admin_tools

server = Server(
    "helpdesk-admin",
    title="Helpdesk admin",
    when_denied="challenged",
    instructions="The admin of the helpdesk. Begin with admin_list_models.",
)

admin_tools(server=server, include=["helpdesk", "auth"])
