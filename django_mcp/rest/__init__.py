"""Views of Django REST framework as tools. It needs the extra ``rest`` of this package."""

from django.core.exceptions import ImproperlyConfigured

try:
    import rest_framework  # noqa: F401 - the modules below need it
except ImportError:
    raise ImproperlyConfigured(
        "django_mcp.rest needs Django REST framework: pip install 'django-mcp-channels[rest]'"
    ) from None

from django_mcp.openapi import checks as checks  # Registers them.
from django_mcp.rest.calls.credentials import scopes_of_caller, without_token
from django_mcp.rest.declaration import rest_tool, rest_tools

__all__ = ["rest_tool", "rest_tools", "scopes_of_caller", "without_token"]
