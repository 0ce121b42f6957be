"""The ASGI application: MCP servers at their paths, Django's pages everywhere else."""

import os

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from django_mcp.routing import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_site.settings")

pages = get_asgi_application()
if settings.DEBUG:
    # The admin's style sheets; a deployed site lets its web server send them.
    pages = ASGIStaticFilesHandler(pages)

# The one line which MCP needs.
application = mount(pages)
