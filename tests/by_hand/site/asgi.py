"""The ASGI application of the site."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.by_hand.site.settings")
pages = get_asgi_application()

from django_mcp.routing import mount  # noqa: E402 - Django is set up first.

application = mount(pages)
