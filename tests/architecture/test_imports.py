"""Import side effects: what can be imported when, and what it imports. Layers: ``lint-imports``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.architecture.sources import ROOT, sources

NEEDS_APPS = {
    "django_mcp.modeladmin",
    "django_mcp.admin",
    "django_mcp.auth.oauth_toolkit",
    "django_mcp.auth.anonymous",  # Only a class of an app uses it.
    "django_mcp.checks",
    "django_mcp.transports.in_process",
    "django_mcp.management",
    "django_mcp.migrations",
    "django_mcp.contrib.approvals",
    "django_mcp.contrib.call_log",
    "django_mcp.contrib.events",
    "django_mcp.contrib.url_elicitation",
    "django_mcp.models",
    "django_mcp.tasks",
    "django_mcp.contrib.oauth.access",
    "django_mcp.contrib.oauth.admin",
    "django_mcp.contrib.oauth.assertions",
    "django_mcp.contrib.oauth.checks",
    "django_mcp.contrib.oauth.clients",
    "django_mcp.contrib.oauth.consent",
    "django_mcp.contrib.oauth.documents",
    "django_mcp.contrib.oauth.endpoints",
    "django_mcp.contrib.oauth.machines",
    "django_mcp.contrib.oauth.migrations",
    "django_mcp.contrib.oauth.models",
    "django_mcp.contrib.oauth.redemptions",
    "django_mcp.contrib.oauth.registrations",
    "django_mcp.contrib.oauth.resources",
    "django_mcp.contrib.oauth.urls",
    "django_mcp.contrib.oauth.validators",
    "django_mcp.contrib.skills.checks",
    "django_mcp.contrib.skills.declaration",
    "django_mcp.contrib.skills.extension",
    "django_mcp.openapi",
    "django_mcp.rest",
    "django_mcp.runtime.read_only_admin",  # Only admins use it.
    "django_mcp.stores.database",
    "django_mcp.stores.statements",
    "django_mcp.templatetags.mcp_pages",
    "django_mcp.testing",
    "django_mcp.contrib.tokens",
    "django_mcp.transports.connection.stdio",
}
"""Modules and packages that require django.setup()."""

IMPORT_SCRIPT = """
import importlib, json, sys
failed = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"failed": failed, "loaded": sorted(sys.modules)}))
"""


def modules() -> list[str]:
    """Every module of the package."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources()]
    return [name.removesuffix(".__init__") for name in names]


def needs_apps(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in NEEDS_APPS)


def python(code: str, *arguments: str, **environment: str) -> Any:
    """Return the JSON output of a new interpreter without settings."""
    inherited = {name: value for name, value in os.environ.items() if "DJANGO" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_modules_can_be_imported_without_settings() -> None:
    found = python(IMPORT_SCRIPT, *[name for name in modules() if not needs_apps(name)])

    assert sorted(found["failed"]) == [], found["failed"]


SITE_SCRIPT = """
from django.conf import settings
APPS = ("django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider", "django_mcp")
settings.configure(INSTALLED_APPS=APPS, SECRET_KEY="secret")
import django
django.setup()
"""


def test_models_of_an_optional_app_that_is_not_installed_name_the_remedy() -> None:
    apps = [name for name in modules() if re.fullmatch(r"django_mcp\.contrib\.\w+\.models", name)]
    failed = python(SITE_SCRIPT + IMPORT_SCRIPT, *apps)["failed"]

    assert len(apps) > 1
    assert failed.keys() == {*apps}
    for models, words in failed.items():
        name = models.removesuffix(".models")
        assert words.startswith("ImproperlyConfigured: ")
        assert f'add "{name}" to INSTALLED_APPS, and run manage.py migrate' in words


@pytest.mark.parametrize(
    "module", ["django_mcp", "django_mcp.core.protocol.revisions", "django_mcp.frame"]
)
def test_protocol_modules_do_not_import_django(module: str) -> None:
    loaded = python(IMPORT_SCRIPT, module)["loaded"]

    packages = {name.partition(".")[0] for name in loaded}
    assert packages & {"django", "channels", "daphne", "asgiref"} == set()


CLIENT_SCRIPT = """
import asyncio, json, sys
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_mcp"],
    DJANGO_MCP={"AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"]},
    ALLOWED_HOSTS=["testserver"],
    SECRET_KEY="secret",
)
import django
django.setup()
from django_mcp import Server
from django_mcp.testing import SyncClient

server = Server("shop")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

with SyncClient(server, transport="http") as client:
    text = client.call_tool("add", {"a": 1, "b": 2}).text
print(json.dumps({"text": text, "loaded": sorted(sys.modules)}))
"""


def test_test_client_imports_neither_an_asgi_server_nor_pytest() -> None:
    found = python(CLIENT_SCRIPT)

    packages = {name.partition(".")[0] for name in found["loaded"]}
    assert found["text"] == "3"
    assert packages & {"daphne", "twisted", "pytest", "uvicorn"} == set()
    assert "channels.testing" not in found["loaded"]
