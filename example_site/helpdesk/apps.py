"""The helpdesk as a Django app."""

from django.apps import AppConfig


class HelpdeskConfig(AppConfig):
    """Tickets of customers, and the comments on them."""

    name = "example_site.helpdesk"
    verbose_name = "Helpdesk"
