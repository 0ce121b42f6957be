"""The label of the app: the package has tokens, too."""

from django.apps import AppConfig


class ApiTokensConfig(AppConfig):
    """API tokens."""

    name = "tests.rest.tokens"
    label = "api_tokens"
    default_auto_field = "django.db.models.BigAutoField"
