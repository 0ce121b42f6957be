"""The example site, with the server ``counters``."""

from django.core.asgi import get_asgi_application

from django_mcp import registry
from django_mcp.routing import mount

pages = get_asgi_application()

from tests.browser.counters import counters  # noqa: E402 - Apps have to be loaded.

registry.add(counters())
application = mount(pages)
