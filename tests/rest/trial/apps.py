from django.apps import AppConfig


class TrialConfig(AppConfig):
    name = "tests.rest.trial"
    label = "trial"
    default_auto_field = "django.db.models.BigAutoField"
