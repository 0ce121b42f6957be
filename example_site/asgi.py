"""The ASGI application: MCP endpoints at their paths, Django's pages at all others."""

import os

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from django_mcp.routing import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")

pages = get_asgi_application()
if settings.DEBUG:
    # Serves the style sheets of the admin; in production, the web server does.
    pages = ASGIStaticFilesHandler(pages)

# The only line that MCP needs.
application = mount(pages)
