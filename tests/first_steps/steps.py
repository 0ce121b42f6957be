"""Steps that are easily forgotten or done wrong, and the words that a developer gets.

``docs/how-to/troubleshooting.md`` shows them. Each is tried as a project in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROBE = str(Path(__file__).with_name("probe.py"))
NEW_CLIENT = (PROBE, "wsgi", "POST", "/mcp")

SETTINGS, MCP = "mysite/settings.py", "shop/mcp.py"
ASGI, WSGI, URLS = "mysite/asgi.py", "mysite/wsgi.py", "mysite/urls.py"
PUBLIC = '"django_mcp.auth.anonymous.AnonymousAuthentication"'
MOUNTED = "mount(get_wsgi_application())"
UNMOUNTED = "get_wsgi_application()"
MOUNTED_ASGI = "__import__('django_mcp.routing').routing.mount(get_asgi_application())"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One mistake in the project of the README."""

    mistake: str
    """What the developer did."""
    noticed: str
    """What they run then."""
    command: Sequence[str]
    """The same as arguments of Python."""
    words: str
    """What they read."""
    edits: Sequence[tuple[str, str, str]] = ()
    """A file, the text that is replaced in it, and its replacement."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Other files."""
    is_shown: bool = True
    """Whether the page shows it: only where a developer reads what is wrong."""


def check(*more: str) -> tuple[str, ...]:
    return ("manage.py", "check", *more)


STEPS: Sequence[Step] = (
    Step(
        mistake='`"django_mcp"` is not in `INSTALLED_APPS`',
        noticed="start of the server",
        edits=[(SETTINGS, '    "django_mcp",\n', "")],
        command=NEW_CLIENT,
        words=(
            "django_mcp is not in INSTALLED_APPS, so that no mcp.py is imported and no server has "
            'components. Add "django_mcp" to INSTALLED_APPS, and run manage.py migrate.'
        ),
    ),
    Step(
        mistake="the URLs of an optional app are included, and it is not in `INSTALLED_APPS`",
        noticed="any command of `manage.py`",
        edits=[
            (
                URLS,
                "urlpatterns = [",
                "from django.urls import include\n\nurlpatterns = [\n"
                '    path("tokens/", include("django_mcp.contrib.tokens.urls")),',
            )
        ],
        command=("manage.py", "makemigrations", "--dry-run"),
        words=(
            'django_mcp.contrib.tokens is used, but not installed: add "django_mcp.contrib.tokens" '
            "to INSTALLED_APPS, and run manage.py migrate."
        ),
    ),
    Step(
        mistake="`wsgi.py` is that of `startproject`, without `mount`",
        noticed="`manage.py check`",
        edits=[(WSGI, MOUNTED, UNMOUNTED)],
        command=check(),
        words=("mysite.wsgi.application answers 404 at '/mcp': it does not mount the MCP servers."),
    ),
    Step(
        mistake="`wsgi.py` does not mount the servers, and the server was started",
        noticed="the log, at the first client",
        edits=[(WSGI, MOUNTED, UNMOUNTED)],
        command=NEW_CLIENT,
        words=(
            "Not Found: /mcp is the path of the MCP server 'mcp', but the WSGI application does "
            "not mount it. In wsgi.py, write: from django_mcp.routing import mount, and "
            "application = mount(get_wsgi_application())."
        ),
    ),
    Step(
        mistake="an ASGI server serves the site (`uvicorn mysite.asgi:application`)",
        noticed="the log, at the first client",
        command=(PROBE, "asgi", "POST", "/mcp"),
        words=(
            "Not Found: /mcp is the path of the MCP server 'mcp', but the ASGI application does "
            "not mount it. In asgi.py, write: from django_mcp.routing import mount, and "
            "application = mount(get_asgi_application())."
        ),
    ),
    Step(
        mistake="`asgi.py` mounts the servers, and `runserver` serves `wsgi.py`",
        noticed="`manage.py check`",
        edits=[(WSGI, MOUNTED, UNMOUNTED), (ASGI, "get_asgi_application()", MOUNTED_ASGI)],
        command=check(),
        words=(
            "runserver serves mysite.wsgi.application, which answers 404 at '/mcp': only "
            "mysite.asgi.application mounts the MCP servers."
        ),
    ),
    Step(
        mistake='`"daphne"` is in `INSTALLED_APPS`, without `ASGI_APPLICATION`',
        noticed="`manage.py check`",
        edits=[(SETTINGS, '    "django_mcp",\n', '    "daphne",\n    "django_mcp",\n')],
        command=check(),
        words="ASGI_APPLICATION is not set, so that runserver does not serve the MCP servers.",
    ),
    Step(
        mistake='`"daphne"` is behind `"django.contrib.staticfiles"`',
        noticed="`manage.py check`",
        edits=[
            (SETTINGS, '"django.contrib.staticfiles",', '"django.contrib.staticfiles", "daphne",'),
            (SETTINGS, "'django.contrib.staticfiles',", "'django.contrib.staticfiles', 'daphne',"),
        ],
        command=check(),
        words="Daphne must be listed before django.contrib.staticfiles in INSTALLED_APPS.",
    ),
    Step(
        mistake="`WSGI_APPLICATION` names no module",
        noticed="`manage.py check`",
        edits=[(SETTINGS, "mysite.wsgi.application", "mysit.wsgi.application")],
        command=check(),
        words="WSGI_APPLICATION is 'mysit.wsgi.application', which cannot be imported:",
    ),
    Step(
        mistake="no `AUTHENTICATORS`",
        noticed="`manage.py check`",
        edits=[(SETTINGS, f'"AUTHENTICATORS": [{PUBLIC}],', "")],
        command=check(),
        words=(
            "The MCP server 'mcp' names no authenticator. Set DJANGO_MCP[\"AUTHENTICATORS\"], or "
            "authenticators=[…] on the Server; for a server that everyone may call, use "
            '"django_mcp.auth.anonymous.AnonymousAuthentication".'
        ),
    ),
    Step(
        mistake="the same",
        noticed="`manage.py mcp_call`, which needs none",
        edits=[(SETTINGS, f'"AUTHENTICATORS": [{PUBLIC}],', "")],
        command=("manage.py", "mcp_call", "add", '{"a": 40, "b": 2}'),
        words="42",
        is_shown=False,
    ),
    Step(
        mistake="a key of `DJANGO_MCP` is misspelled",
        noticed="`manage.py check`",
        edits=[(SETTINGS, "DJANGO_MCP = {", 'DJANGO_MCP = {"TITEL": "Shop",')],
        command=check(),
        words="DJANGO_MCP has no key 'TITEL'. Did you mean 'TITLE'?",
    ),
    Step(
        mistake="a syntax error in `mcp.py`",
        noticed="`manage.py check`",
        edits=[(MCP, "return a + b", "return a +")],
        command=check(),
        words="shop.mcp cannot be imported: SyntaxError: invalid syntax (mcp.py, line 7)",
    ),
    Step(
        mistake="`mcp.py` imports what does not exist",
        noticed="`manage.py migrate`, which goes on",
        edits=[(MCP, "from django_mcp import tool", "from django_mcp import tool\nimport tea")],
        command=("manage.py", "migrate"),
        words="Applying django_mcp.0001_initial... OK",
        is_shown=False,
    ),
    Step(
        mistake="`mcp.py` imports what does not exist",
        noticed="start of the server",
        edits=[(MCP, "from django_mcp import tool", "from django_mcp import tool\nimport tea")],
        command=NEW_CLIENT,
        words=(
            "django.core.exceptions.ImproperlyConfigured: shop.mcp cannot be imported: "
            "ModuleNotFoundError: No module named 'tea'"
        ),
    ),
    Step(
        mistake="two tools of one name",
        noticed="`manage.py check`",
        edits=[
            (
                MCP,
                "return a + b",
                "return a + b\n\n\n@tool(name='add')\ndef plus() -> int:\n"
                '    "Add."\n    return 1',
            )
        ],
        command=check(),
        words="The tool 'add' is registered twice: at shop.mcp:4 and at shop.mcp:10.",
    ),
    Step(
        mistake="a tool without a docstring",
        noticed="`manage.py check`",
        edits=[(MCP, '    """Add two numbers."""\n', "")],
        command=check(),
        words="Components that have no description, so that a model cannot know when to use them: "
        "tool 'add' at shop.mcp:4.",
    ),
    Step(
        mistake="`mcp.py` is in a package that is no app",
        noticed="a client",
        edits=[(SETTINGS, '    "shop",\n', "")],
        command=NEW_CLIENT,
        words="Method not found: tools/list, since there are no tools",
    ),
    Step(
        mistake="two servers with one path",
        noticed="`manage.py check`",
        edits=[
            (
                MCP,
                "from django_mcp import tool",
                'from django_mcp import Server, tool\n\nother = Server("other", path="/mcp")',
            )
        ],
        command=check(),
        words=(
            "The MCP servers 'mcp' and 'other' share the path '/mcp', so that only one of them "
            "can be reached."
        ),
    ),
    Step(
        mistake="a path with an unknown converter",
        noticed="start of the server",
        edits=[(SETTINGS, "DJANGO_MCP = {", 'DJANGO_MCP = {"PATH": "/orgs/<sluk:org>/mcp",')],
        command=NEW_CLIENT,
        words="URL route 'orgs/<sluk:org>/mcp' uses invalid converter 'sluk'.",
    ),
    Step(
        mistake="the app label of a permission is misspelled",
        noticed="`manage.py check`",
        edits=[(MCP, "read_only=True", 'permission="shopp.view_product"')],
        command=check(),
        words=(
            "The tool 'add' at shop.mcp:4 needs the permission 'shopp.view_product', but no "
            "installed app has that label."
        ),
    ),
    Step(
        mistake="a tool needs a permission",
        noticed="`manage.py mcp_call` without `--user`",
        edits=[(MCP, "read_only=True", 'permission="auth.view_user"')],
        command=("manage.py", "mcp_call", "add", '{"a": 1, "b": 2}'),
        words="(It is not for everybody: see --user and --scope)",
    ),
    Step(
        mistake="a middleware in `DJANGO_MIDDLEWARE` is misspelled",
        noticed="`manage.py check`",
        edits=[(SETTINGS, "DJANGO_MCP = {", 'DJANGO_MCP = {"DJANGO_MIDDLEWARE": ["shop.Locale"],')],
        command=check(),
        words="DJANGO_MCP[\"DJANGO_MIDDLEWARE\"] names 'shop.Locale', which cannot be imported:",
    ),
    Step(
        mistake="`migrate` was not run",
        noticed="the log, at the first client with a session",
        command=(*NEW_CLIENT, "method=initialize"),
        words="no such table: django_mcp_",
    ),
    Step(
        mistake="a browser opens the endpoint, under `DEBUG`",
        noticed="the page",
        command=(PROBE, "wsgi", "GET", "/mcp", "accept=text/html"),
        words="200 MCP server mysite",
        is_shown=False,
    ),
    Step(
        mistake="a browser opens the endpoint, without `DEBUG`",
        noticed="the page",
        edits=[
            (SETTINGS, "DEBUG = True", "DEBUG = False"),
            (SETTINGS, "ALLOWED_HOSTS = []", 'ALLOWED_HOSTS = ["127.0.0.1"]'),
        ],
        command=(PROBE, "wsgi", "GET", "/mcp", "accept=text/html,*/*;q=0.8"),
        words="200 MCP server mysite",
        is_shown=False,
    ),
    Step(
        mistake="a client that accepts no JSON",
        noticed="a client",
        command=(*NEW_CLIENT, "accept=text/html"),
        words="Accept application/json and text/event-stream",
    ),
    Step(
        mistake="the host of the URL is not in `ALLOWED_HOSTS`",
        noticed="a client",
        command=(*NEW_CLIENT, "host=shop.example.com"),
        words="Host not allowed: see ALLOWED_HOSTS",
    ),
    Step(
        mistake="a web page of another site calls the server",
        noticed="a client",
        command=(*NEW_CLIENT, "origin=https://app.example.com"),
        words="Origin not allowed: see ALLOWED_ORIGINS",
    ),
    Step(
        mistake="a client without credentials",
        noticed="a client",
        edits=[(SETTINGS, PUBLIC, '"django_mcp.auth.django_session.DjangoSessionAuthentication"')],
        command=NEW_CLIENT,
        words="Authentication required",
    ),
    Step(
        mistake="a tool that does not exist, or that the caller may not see",
        noticed="a client",
        command=(*NEW_CLIENT, "method=tools/call", "name=subtract"),
        words="Unknown tool",
    ),
)
