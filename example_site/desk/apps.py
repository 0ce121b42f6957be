"""The desk as a Django app, without models."""

from django.apps import AppConfig


class DeskConfig(AppConfig):
    """What lies on a desk: a calculator, a table of units, a timer, a pad of notes."""

    name = "example_site.desk"
    verbose_name = "Desk"
