"""The helpdesk as a Django app."""

from django.apps import AppConfig


class HelpdeskConfig(AppConfig):
    """Tickets of customers and their comments."""

    name = "example_site.helpdesk"
    verbose_name = "Helpdesk"
