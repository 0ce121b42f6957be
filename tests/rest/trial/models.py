"""Rows with tags and custom fields, API tokens, and a change log, as sites of an inventory have."""

from django.conf import settings
from django.db import models


class Token(models.Model):
    """An API token. Permission classes look at ``write_enabled``."""

    key = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    write_enabled = models.BooleanField(default=True)


class Tag(models.Model):
    name = models.CharField(max_length=20, unique=True)


class Device(models.Model):
    name = models.CharField(max_length=20)
    tags = models.ManyToManyField(Tag)
    custom_fields = models.JSONField(default=dict, blank=True)


class Change(models.Model):
    """What a request changed, and who sent it."""

    user_name = models.CharField(max_length=20)
    device = models.CharField(max_length=20)
