"""Accepts the tokens of Wagtail's API."""

from django_mcp.auth.ninja import NinjaAuthentication


class ApiTokens(NinjaAuthentication):
    callbacks = ["wagtail.api.v3.auth.BearerTokenAuth"]
