from django_mcp.auth.ninja import NinjaAuthentication


class ApiTokens(NinjaAuthentication):
    callbacks = ["shop.api.Bearer"]
