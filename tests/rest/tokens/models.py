"""API tokens, of which some may only read."""

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    key = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    may_write = models.BooleanField(default=True)

    class Meta:
        app_label = "api_tokens"
