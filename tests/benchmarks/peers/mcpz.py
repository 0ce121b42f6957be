"""django-mcpz with the tools of the cases, in a Django project without middleware."""

import django
import msgspec
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest
from django.urls import path
from django_mcpz.server import MCPServer, public

from tests.benchmarks.site.database import DATABASES

settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    DATABASES=DATABASES,
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402 - it needs the settings


class Numbers(msgspec.Struct):  # type: ignore[misc]
    """The arguments of `add`."""

    a: int
    b: int


class Key(msgspec.Struct):  # type: ignore[misc]
    """The arguments of `group_name`."""

    pk: int


def add(request: HttpRequest, params: Numbers) -> str:
    """Add two numbers."""
    return str(params.a + params.b)


def group_name(request: HttpRequest, params: Key) -> str:
    """Read one row by its primary key."""
    return Group.objects.get(pk=params.pk).name


server = MCPServer(name="bench", version="1.0", instructions="", auth=public)
server.tool(name="add", description="Add two numbers.")(add)
server.tool(name="add_sync", description="Add two numbers.")(add)
server.tool(name="group_name", description="Read one row by its primary key.")(group_name)

urlpatterns = [path("mcp", server)]
application = get_wsgi_application()
