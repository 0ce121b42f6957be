"""The conformance target as a Django app."""

from django.apps import AppConfig


class ConformanceConfig(AppConfig):
    """The components that the official conformance suite expects of a server."""

    name = "example_site.conformance"
    verbose_name = "Conformance"
