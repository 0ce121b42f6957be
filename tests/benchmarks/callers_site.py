"""A site on PostgreSQL whose callers have a session cookie or a token: see ``callers``."""

from __future__ import annotations

import json
import os

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    USE_TZ=True,
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django_mcp",
        "django_mcp.tokens",
    ],
    DATABASES={"default": json.loads(os.environ["CALLERS_DATABASE"])},
    ROOT_URLCONF="tests.benchmarks.callers_site",
    DJANGO_MCP={
        "AUTHENTICATORS": [
            "django_mcp.auth.token.TokenAuthentication",
            "django_mcp.auth.django_session.DjangoSessionAuthentication",
        ],
    },
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402

from django_mcp import tool  # noqa: E402
from django_mcp.routing import mount  # noqa: E402

urlpatterns: list[object] = []


@tool
async def open_tool() -> str:
    """Answers."""
    return "done"


@tool(permission="auth.view_user")
async def guarded_tool() -> str:
    """Answers whom the permission allows it."""
    return "done"


@tool
def query_tool() -> int:
    """Makes one query."""
    return Group.objects.count()


application = mount(get_asgi_application())
