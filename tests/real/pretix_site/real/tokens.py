"""The tokens of teams and devices, as pretix's API accepts them."""

from django_mcp.auth.rest_framework import RESTFrameworkAuthentication


class ApiTokens(RESTFrameworkAuthentication):
    authentication_classes = (
        "pretix.api.auth.token.TeamTokenAuthentication",
        "pretix.api.auth.device.DeviceTokenAuthentication",
    )
