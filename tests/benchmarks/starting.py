"""What the start of a process costs, and its first list: seconds of processor time.

``python -m tests.benchmarks.starting`` runs each in processes of its own, in turn, and prints the
medians. The start of a site with all apps and 200 tools is compared with that of the same site
without them. It starts without its database; the list is that of a site with one.
"""

from __future__ import annotations

import argparse
import subprocess
from statistics import median

from tests.benchmarks import environments
from tests.benchmarks.processes import inherited

NOWHERE = "/nowhere/db.sqlite3"
SITE = """
import time
from django.conf import settings

DJANGO = ["admin", "auth", "contenttypes", "sessions", "messages", "staticfiles"]
MCP = ["tokens", "oauth", "approvals", "call_log", "url_elicitation", "events"]
has_tools = {has_tools}
own_apps = ["django_mcp", *(f"django_mcp.contrib.{{name}}" for name in MCP)] if has_tools else []
settings.configure(
    SECRET_KEY="only for measuring",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="__main__",
    INSTALLED_APPS=[
        *(f"django.contrib.{{name}}" for name in DJANGO),
        "oauth2_provider",
        "rest_framework",
        *own_apps,
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {{"context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
        ]}},
    }}],
    DATABASES={{"default": {{
        "ENGINE": "django.db.backends.sqlite3", "NAME": "{database}",
    }}}},
    USE_TZ=True,
    DJANGO_MCP={{
        "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
    }},
)
from django.core.asgi import get_asgi_application

urlpatterns = []

application = get_asgi_application()
if has_tools:
    from django_mcp import tool
    from django_mcp.routing import mount

    def add(a: int, b: int = 1) -> int:
        "Add two numbers."
        return a + b

    for number in range({tools}):
        tool(name=f"tool_{{number:04}}")(add)
    application = mount(application)
"""
START = SITE + "\nprint(time.process_time())\n"
FIRST_LIST = (
    SITE
    + """
import asyncio
from django_mcp import registry
from tests.benchmarks.calls import LIST_1000
from tests.benchmarks.in_process import Request

registry.default.page_size = 1000
list_tools = Request(application, "/mcp", LIST_1000.all_headers, LIST_1000.body.decode())
began = time.process_time()
asyncio.run(list_tools.send())
needed = time.process_time() - began
assert list_tools.messages[1]["body"].count(b'"inputSchema"') == {tools}, list_tools.messages
print(needed)
"""
)
FIRST_LIST_OF_ADMIN = (
    SITE
    + """
from django.contrib.auth.models import User
from django_mcp import Server
from django_mcp.modeladmin import admin_tools
from django_mcp.testing import SyncClient

office = Server("office")
admin_tools(server=office, include=["auth"], one_set_per_model={one_set_per_model})
with SyncClient(office, user=User(pk=1, is_staff=True, is_superuser=True)) as client:
    began = time.process_time()
    listed = client.list_tools()
    needed = time.process_time() - began
assert len(listed) == {listed}, listed
print(needed)
"""
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ours = START.format(has_tools=True, tools=200, database=NOWHERE)
    django = START.format(has_tools=False, tools=0, database=NOWHERE)
    first_list = FIRST_LIST.format(has_tools=True, tools=1000, database=":memory:")
    site = {"has_tools": True, "tools": 0, "database": ":memory:"}
    admin = FIRST_LIST_OF_ADMIN.format(**site, one_set_per_model=False, listed=11)
    sets = FIRST_LIST_OF_ADMIN.format(**site, one_set_per_model=True, listed=17)
    for script in (ours, django, first_list, admin, sets):
        seconds(script)  # Byte code is cached now.
    pairs = [(seconds(ours), seconds(django)) for _ in range(rounds)]
    own, beside = (median(times) for times in zip(*pairs, strict=True))
    ratio = median(one / other for one, other in pairs)
    listed, of_admin, of_sets = (
        median(seconds(script) for _ in range(rounds)) for script in (first_list, admin, sets)
    )
    print("| case | processor | beside | ratio | bar |\n| --- | ---: | ---: | ---: | ---: |")
    print(f"| start with 200 tools | {own:.2f} s | {beside:.2f} s | {ratio:.2f} | at most 1.6 |")
    print(f"| first list of 1,000 tools | {listed:.2f} s | | | at most 0.5 s |")
    print(f"| first list of the admin's tools | {of_admin:.3f} s | | | at most 0.02 s |")
    print(f"| the same, one set for two models | {of_sets:.3f} s | | | at most 0.04 s |")


def seconds(script: str) -> float:
    """Run a script; return the number that it prints."""
    done = subprocess.run(
        [str(environments.python("site")), "-c", script],
        env={**inherited(), "PYTHONPATH": str(environments.ROOT)},
        cwd=environments.ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


if __name__ == "__main__":
    main()
