"""The conformance target as a Django app."""

from django.apps import AppConfig


class ConformanceConfig(AppConfig):
    """What the official conformance suite wants to find on a server."""

    name = "example_site.conformance"
    verbose_name = "Conformance"
