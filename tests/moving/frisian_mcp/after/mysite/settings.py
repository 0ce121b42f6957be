from mysite.base import *

INSTALLED_APPS += ["rest_framework", "django_mcp", "django_mcp.contrib.tokens"]
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.token.TokenAuthentication"]}
