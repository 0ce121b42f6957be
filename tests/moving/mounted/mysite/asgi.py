import os

from django.core.asgi import get_asgi_application

from django_mcp.routing import mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
application = mount(get_asgi_application())
