"""django-mcpz with the tools of the cases, in a Django project without middleware."""

import os
from typing import Any

import django
import msgspec
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest
from django.urls import path
from django_mcpz.server import MCPServer, public

from tests.benchmarks.calls import TABLE_ROWS
from tests.benchmarks.site import rows
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

from django.contrib.auth.models import Group, User  # noqa: E402 - it needs the settings


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


def typed_dicts(request: HttpRequest) -> rows.DictPage:
    """Return about 100 kB of dicts with known keys."""
    return rows.DICT_PAGE


def dataclasses(request: HttpRequest) -> rows.DataPage:
    """Return the same as dataclasses."""
    return rows.DATA_PAGE


def models(request: HttpRequest) -> dict[str, Any]:
    """Return the same as pydantic models, of which msgspec needs dicts."""
    return rows.MODEL_PAGE.model_dump()


def values(request: HttpRequest) -> dict[str, Any]:
    """Return as much from the database."""
    return {"rows": list(User.objects.order_by("pk").values(*rows.USER_COLUMNS)[:TABLE_ROWS])}


server = MCPServer(name="bench", version="1.0", instructions="", auth=public)
server.tool(name="add", description="Add two numbers.")(add)
FURTHER = int(os.environ.get("BENCH_TOOLS", "0"))
if not FURTHER:
    server.tool(name="add_sync", description="Add two numbers.")(add)
    for tool in (group_name, typed_dicts, dataclasses, models, values):
        server.tool(description=tool.__doc__ or "")(tool)
for number in range(1, FURTHER):
    server.tool(name=f"tool_{number:04}", description="Add two numbers.")(add)

urlpatterns = [path("mcp", server)]
application = get_wsgi_application()
