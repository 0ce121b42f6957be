"""django-mcp-server with the tools of the cases, in a Django project without middleware."""

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

from tests.benchmarks.site.database import DATABASES

settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "rest_framework",
        "mcp_server",
    ],
    DATABASES=DATABASES,
    DJANGO_MCP_GLOBAL_SERVER_CONFIG={"stateless": True},
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402 - it needs the settings
from mcp_server import MCPToolset, mcp_server  # noqa: E402


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


mcp_server.tool()(add)


class Tools(MCPToolset):  # type: ignore[misc]
    """The synchronous tools."""

    def add_sync(self, a: int, b: int) -> int:
        """Add two numbers, in a synchronous handler."""
        return a + b

    def group_name(self, pk: int) -> str:
        """Read one row by its primary key."""
        return Group.objects.get(pk=pk).name


mcp_server.register_mcptoolset(Tools())

urlpatterns = [path("", include("mcp_server.urls"))]
application = get_wsgi_application()
