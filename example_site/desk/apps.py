"""The desk as a Django app, without models."""

from django.apps import AppConfig


class DeskConfig(AppConfig):
    """A calculator, a unit converter, a timer and notes."""

    name = "example_site.desk"
    verbose_name = "Desk"
