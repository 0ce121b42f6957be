"""The label of the app: the example site has a desk, too."""

from django.apps import AppConfig


class ToolsetDeskConfig(AppConfig):
    """A desk of tickets."""

    name = "tests.toolsets.desk"
    label = "toolset_desk"
    default_auto_field = "django.db.models.BigAutoField"
