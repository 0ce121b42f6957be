"""djangorestframework-mcp-server with the tools of the cases, without authentication."""

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path

from tests.benchmarks.site.database import DATABASES

settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework"],
    DATABASES=DATABASES,
    USE_TZ=True,
    REST_FRAMEWORK_MCP={"REQUIRE_TOOL_PERMISSIONS": False},
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402 - it needs the settings
from rest_framework import serializers  # noqa: E402
from rest_framework_mcp import MCPServer  # noqa: E402
from rest_framework_mcp.auth.backends import AllowAnyBackend  # noqa: E402
from rest_framework_services.types.service_spec import ServiceSpec  # noqa: E402


class Numbers(serializers.Serializer):  # type: ignore[misc]
    """The arguments of `add_sync`."""

    a = serializers.IntegerField()
    b = serializers.IntegerField()


class Key(serializers.Serializer):  # type: ignore[misc]
    """The arguments of `group_name`."""

    pk = serializers.IntegerField()


def add(*, data: dict[str, int]) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": data["a"] + data["b"]}


def group_name(*, data: dict[str, int]) -> dict[str, str]:
    """Read one row by its primary key."""
    return {"name": Group.objects.get(pk=data["pk"]).name}


# Neither opens a transaction: the other peers open none either.
ADD = ServiceSpec(service=add, input_serializer=Numbers, atomic=False)
GROUP_NAME = ServiceSpec(service=group_name, input_serializer=Key, atomic=False)

server = MCPServer(name="bench", version="1.0", auth_backend=AllowAnyBackend())
for name, spec in (("add", ADD), ("add_sync", ADD), ("group_name", GROUP_NAME)):
    server.register_service_tool(name=name, description="For measuring.", spec=spec)

urlpatterns = [path("", server.urls)]
application = get_wsgi_application()
