"""The ASGI application of the site."""

from django.core.asgi import get_asgi_application

from django_mcp.routing import mount

application = mount(get_asgi_application())
