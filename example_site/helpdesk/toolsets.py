"""Customers as a model toolset: tools whose boundary is this declaration."""

from django_mcp.toolsets import ModelToolset
from example_site.helpdesk.models import Customer


class Customers(ModelToolset):
    """The customers of the helpdesk. Callers need Django's permissions of the model."""

    model = Customer
    operations = ["list", "get", "count", "update"]
    fields = ["pk", "name", "city"]
    filter_fields = {"city": ["exact", "icontains"], "name": ["icontains"]}
    search_fields = ["name", "city"]
    ordering_fields = ["name", "city"]
    ordering = ["name"]
    write_fields = ["name", "city"]
    # Hosts show the list as a table.
    ui = True
