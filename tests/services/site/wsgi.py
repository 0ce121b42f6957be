"""The WSGI application of the site."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.services.site.settings")
pages = get_wsgi_application()

from django_mcp.routing import mount  # noqa: E402 - Django is set up first.

application = mount(pages)
