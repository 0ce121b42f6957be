from mysite.base import *

MIDDLEWARE += ["django.contrib.auth.middleware.AuthenticationMiddleware"]
INSTALLED_APPS += ["django_mcp"]
DJANGO_MCP = {"AUTHENTICATORS": ["shop.auth.ApiTokens"]}
