"""The WSGI application: the same MCP servers and pages as that for ASGI."""

import os

from django.core.wsgi import get_wsgi_application

from django_mcp.routing import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")

application = mount(get_wsgi_application())
