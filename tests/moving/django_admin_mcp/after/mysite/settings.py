from mysite.base import *
from mysite.of_admin import *

INSTALLED_APPS += [
    "django.contrib.admin",
    "django.contrib.messages",
    "django_mcp",
    "django_mcp.contrib.tokens",
]
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.token.TokenAuthentication"]}
