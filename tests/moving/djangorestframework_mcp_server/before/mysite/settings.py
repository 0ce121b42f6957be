from mysite.base import *

INSTALLED_APPS += ["rest_framework"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
REST_FRAMEWORK_MCP = {"REQUIRE_TOOL_PERMISSIONS": False}
