"""The WSGI application: Django's pages only, because MCP requires ASGI."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")

application = get_wsgi_application()
