"""What a site imports when it starts: rare features are imported at their first use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RARE = (
    "django_mcp.admin.try_it.views",
    "django_mcp.auth.issuers",
    "django_mcp.core.server.card",
    "django_mcp.management",
    "django_mcp.pubsub.announcements",
    "django_mcp.transports.connection.connection",
    "django_mcp.transports.http.browser",
    "django_mcp.transports.http.http_sse",
    "django_mcp.transports.http.session.handler",
    "django_mcp.transports.wsgi",
    "django_mcp.ui.forms",
    "django_mcp.ui.pages",
    "django_mcp.ui.views",
    "docstring_parser",
    "jsonschema",
    "jwt",
    "pydantic.networks",
)
MOST_MODULES = 251
"""The modules of this package that the site below may import. Each takes 0.3 ms, and a dataclass in
it as much again: more of them are a decision, and fewer lower this number."""
START = f"""
import sys
from django.conf import settings

DJANGO = ("admin", "auth", "contenttypes", "sessions", "messages")
OWN = ("tokens", "approvals", "call_log", "url_elicitation")
settings.configure(
    SECRET_KEY="start",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="start",
    INSTALLED_APPS=[
        *(f"django.contrib.{{name}}" for name in DJANGO),
        "django_mcp",
        *(f"django_mcp.contrib.{{name}}" for name in OWN),
    ],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    DJANGO_MCP={{
        "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
        "HTTP_SSE": "--sse" in sys.argv,
    }},
)
from django.core.asgi import get_asgi_application

application = get_asgi_application()
from django_mcp import tool
from django_mcp.routing import mount

@tool
def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b

mount(application)
import json
rare = [name for name in {RARE!r} if name in sys.modules]
own = [name for name in sys.modules if name.partition(".")[0] == "django_mcp"]
print(json.dumps({{"rare": rare, "own": own}}))
"""


def imported(*options: str) -> Any:
    """What a site with most apps and one tool imports: modules of RARE, and those of ours."""
    command = [sys.executable, "-c", START, *options]
    root = Path(__file__).parent.parent
    site = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return json.loads(site.stdout)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), []),
        (
            ("--sse",),
            [
                "django_mcp.pubsub.announcements",
                "django_mcp.transports.connection.connection",
                "django_mcp.transports.http.http_sse",
            ],
        ),
    ],
)
def test_site_imports_rare_features_only_if_it_has_them(
    options: tuple[str, ...], expected: list[str]
) -> None:
    assert imported(*options)["rare"] == expected


def test_site_imports_few_modules_of_this_package() -> None:
    assert len(imported()["own"]) <= MOST_MODULES


def test_site_without_the_users_of_django_is_told_which_apps_to_add() -> None:
    code = """
from django.conf import settings
settings.configure(INSTALLED_APPS=["django_mcp"])
import django
django.setup()
"""
    site = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'add "django.contrib.auth" and "django.contrib.contenttypes"' in site.stderr
