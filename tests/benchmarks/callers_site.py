"""A site on PostgreSQL whose callers are somebody, and plain views with the same look-ups.

See ``callers``. ``application`` serves the tools, under ASGI, and ``views`` the views, under WSGI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import django
from django.conf import settings

SITE = "tests.benchmarks.callers_site"
AUDIENCE = "https://callers.example/mcp"
ISSUER = "https://issuer.example"
AUTHENTICATORS = {
    "anonymous": "django_mcp.auth.anonymous.AnonymousAuthentication",
    "session cookie": "django_mcp.auth.django_session.DjangoSessionAuthentication",
    "token of REST framework": "tests.benchmarks.callers_authenticators.RestTokens",
    "personal token": "django_mcp.auth.token.TokenAuthentication",
    "JWT": "tests.benchmarks.callers_authenticators.SignedTokens",
}

settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    USE_TZ=True,
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "rest_framework",
        "rest_framework.authtoken",
        "django_mcp",
        "django_mcp.contrib.tokens",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    DATABASES={"default": json.loads(os.environ["CALLERS_DATABASE"])},
    ROOT_URLCONF=SITE,
    DJANGO_MCP={
        "AUTHENTICATORS": [AUTHENTICATORS[os.environ.get("CALLERS_ARE", "anonymous")]],
        "AUDIENCES": [AUDIENCE],
    },
)
django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from rest_framework.authentication import TokenAuthentication  # noqa: E402
from rest_framework.decorators import (  # noqa: E402
    api_view,
    authentication_classes,
    permission_classes,
)
from rest_framework.permissions import IsAuthenticated  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402

from django_mcp import tool  # noqa: E402
from django_mcp.routing import mount  # noqa: E402


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


@tool(permission="auth.view_user")
def guarded_query_tool() -> int:
    """Makes one query for whom the permission allows it."""
    return Group.objects.count()


def done() -> str:
    """What ``open_tool`` does."""
    return "done"


WORK: dict[str, Callable[[], object]] = {"open_tool": done, "query_tool": Group.objects.count}


def session_view(request: HttpRequest, name: str) -> HttpResponse:
    """Does the same as a tool, for a user whom Django's middleware finds."""
    if not request.user.is_authenticated:
        return HttpResponse(status=401)
    return JsonResponse({"result": WORK[name]()})


@api_view(["GET"])
@authentication_classes([TokenAuthentication])
@permission_classes([IsAuthenticated])
def token_view(request: Request, name: str) -> Response:
    """Does the same, for a user whom REST framework finds."""
    return Response({"result": WORK[name]()})


urlpatterns = [path("session/<name>", session_view), path("token/<name>", token_view)]

application = mount(get_asgi_application())
views = get_wsgi_application()
