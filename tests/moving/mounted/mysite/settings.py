from mysite.base import *

INSTALLED_APPS += ["rest_framework", "django_mcp"]
DJANGO_MCP = {"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]}
