"""What ``mcp_doctor`` says of a project with one fault: it names the fault and its remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.views import LoginView
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.expressions import Col
from django.http import HttpResponse
from django.urls import include, path
from oauth2_provider.models import AccessToken

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.jwt import JWTAuthentication
from django_mcp.auth.oauth_toolkit import OAuthToolkitAuthentication
from django_mcp.contrib.oauth import provider_settings
from django_mcp.management.findings.base import difference_remedy
from tests.management import in_process
from tests.memory_stores import MEMORY

if TYPE_CHECKING:
    from pytest_django import Settings

URL = "https://site.example/mcp"
OAUTH = include("django_mcp.contrib.oauth.urls")


class Login(LoginView):
    def get(self, *_: Any, **__: Any) -> Any:
        return HttpResponse("Log in")


LOGIN = path("accounts/login/", Login.as_view(), name="login")


@pytest.fixture
def urls(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the URL patterns of the site."""

    def use(*patterns: Any) -> None:
        module: Any = ModuleType("tests.management.urls_of_a_site")
        module.urlpatterns = [*patterns]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        settings.ROOT_URLCONF = module.__name__

    return use


@pytest.fixture
def serve_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Server]:
    """Sets the only server of the site."""

    def use(*authenticators: Any) -> Server:
        server = Server("mcp", path="/mcp", authenticators=authenticators)

        @server.tool(read_only=True)
        def look() -> str:
            """Look."""
            return "Seen."

        monkeypatch.setattr(registry, "default", server)
        monkeypatch.setattr(registry.registered, "servers", {"mcp": server})
        return server

    return use


@pytest.fixture
def server(serve_with: Callable[..., Server]) -> Server:
    return serve_with(OAuthToolkitAuthentication())


@pytest.fixture(autouse=True)
def site(
    db: None,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    urls: Callable[..., None],
    server: Server,
) -> None:
    """A site at which nothing is wrong."""
    urls(path("", OAUTH), LOGIN)
    settings.LOGIN_URL = "login"
    settings.ALLOWED_HOSTS = ["site.example"]
    settings.DEBUG = False
    settings.ASGI_APPLICATION = None
    settings.WSGI_APPLICATION = None
    settings.DJANGO_MCP = {"STORES": MEMORY, "SCOPES": ["mcp"]}
    settings.OAUTH2_PROVIDER = provider_settings({"mcp": "Use it"})
    in_process.serve(monkeypatch)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[bool, str]]:
    """Returns whether the doctor finds a failure, and what it prints."""

    def run() -> tuple[bool, str]:
        try:
            call_command("mcp_doctor", URL)
        except CommandError:
            has_failed = True
        else:
            has_failed = False
        return has_failed, capsys.readouterr().out

    return run


Doctor = Callable[[], tuple[bool, str]]


def check_failure(doctor: Doctor, text: str, remedy: str) -> None:
    """Assert that a finding, which is printed once, and its remedy contain these words."""
    has_failed, output = doctor()
    lines = output.splitlines()
    finding = [
        (line, lines[number + 1])
        for number, line in enumerate(lines)
        if text in line and "FAILURE" in line
    ]
    assert has_failed, output
    assert len(finding) == 1, output
    assert remedy in finding[0][1], output


def test_site_without_faults_has_no_failure(doctor: Doctor) -> None:
    has_failed, output = doctor()
    assert not has_failed, output
    assert "FAILURE" not in output
    assert "ok      System checks, tables and caches" in output


@pytest.mark.parametrize(("edited", "other"), [("WSGI", "ASGI"), ("ASGI", "WSGI")])
def test_application_that_is_not_mounted_is_named_beside_the_one_that_is(
    edited: str,
    other: str,
    doctor: Doctor,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for interface in ("WSGI", "ASGI"):
        path = f"tests.wsgi.pair.{interface.lower()}.application"
        setattr(settings, f"{interface}_APPLICATION", path)
    monkeypatch.setattr(registry, "is_mounted", lambda server, interface: interface == edited)
    has_failed, output = doctor()
    assert not has_failed
    assert f"tests.wsgi.pair.{edited.lower()}.application mounts the MCP servers" in output
    missing = f"tests.wsgi.pair.{other.lower()}.application does not mount the MCP servers"
    assert missing in output
    assert f"mount(get_{other.lower()}_application())" in output


def test_application_that_cannot_be_imported_is_a_failure_and_not_one_without_servers(
    doctor: Doctor, settings: Settings
) -> None:
    settings.WSGI_APPLICATION = "nowhere.wsgi.application"
    check_failure(doctor, "'nowhere.wsgi.application', which cannot be imported", "no WSGI server")
    assert "does not mount" not in doctor()[1]


def test_each_finding_is_printed_once_for_all_clients_that_have_it(doctor: Doctor) -> None:
    _, output = doctor()
    lines = [line for line in output.splitlines() if line.startswith("  ")]
    assert len(lines) == len(set(lines)), output
    assert "All clients" in output


def test_allowed_hosts_of_every_name_without_base_url(doctor: Doctor, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    check_failure(doctor, "E025", "BASE_URL")
    assert "follows whatever Host" in doctor()[1]


def test_login_url_that_does_not_exist(doctor: Doctor, settings: Settings) -> None:
    settings.LOGIN_URL = "/nowhere/"
    check_failure(doctor, "The login page https://site.example/nowhere/", "LOGIN_URL")
    assert "warning django_mcp_oauth.W002" in doctor()[1]


def test_login_url_that_is_no_view(doctor: Doctor, settings: Settings) -> None:
    settings.LOGIN_URL = "no-such-view"
    check_failure(doctor, "django_mcp_oauth.E004", "LOGIN_URL")


def test_scope_that_the_authorization_server_does_not_know(
    doctor: Doctor, settings: Settings
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SCOPES": ["mcp", "typo"]}
    check_failure(doctor, "E003: The MCP server 'mcp' requires the scope 'typo'", "OAUTH2_PROVIDER")


def test_scope_of_a_tool_that_the_authorization_server_does_not_know(
    doctor: Doctor, server: Server
) -> None:
    @server.tool(scopes=["typo"])
    def change() -> str:
        """Change."""
        return "Done."

    check_failure(doctor, "E003: The tool 'change' requires the scope 'typo'", "OAUTH2_PROVIDER")


def test_server_where_nobody_is_ever_asked_to_log_in(
    doctor: Doctor, serve_with: Callable[..., Server]
) -> None:
    server = serve_with(OAuthToolkitAuthentication(), AnonymousAuthentication())
    assert "W068" not in doctor()[1]

    @server.tool(permission="login_required")
    def change() -> str:
        """Change."""
        return "Done."

    assert "warning django_mcp.W068: Nobody is ever asked to log in" in doctor()[1]


@pytest.mark.parametrize("label", ["oauth2_provider", "django_mcp_tokens"])
def test_tables_that_are_missing(doctor: Doctor, label: str) -> None:
    MigrationRecorder(connection).migration_qs.filter(app=label).delete()
    check_failure(doctor, f"Migrations of {label}", "manage.py migrate")


def test_tables_that_are_missing_as_seen_from_outside(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AccessToken._meta, "db_table", "no_such_table")
    # Fields keep the name of their table: afterwards, they must not have this one.
    for field in AccessToken._meta.concrete_fields:
        monkeypatch.setitem(vars(field), "cached_col", Col("no_such_table", field))
    check_failure(doctor, "the site cannot look tokens up", "manage.py migrate")


def test_authorization_header_that_a_proxy_removes(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_process.serve(monkeypatch, without_authorization)
    check_failure(doctor, "The Authorization header does not arrive", "pass the header on")


def test_authorization_header_that_a_proxy_removes_before_a_mixed_server(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, serve_with: Callable[..., Server]
) -> None:
    serve_with(OAuthToolkitAuthentication(), AnonymousAuthentication())
    in_process.serve(monkeypatch, without_authorization)
    check_failure(doctor, "accepted, or does not arrive", "pass the Authorization header on")


def without_authorization(scope: dict[str, Any]) -> dict[str, Any]:
    kept = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
    return {**scope, "headers": kept}


def test_prefix_that_a_proxy_removes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_prefix(scope: dict[str, Any]) -> dict[str, Any] | None:
        is_ours = scope["path"].startswith("/app/")
        return {**scope, "path": scope["path"].removeprefix("/app")} if is_ours else None

    in_process.serve(monkeypatch, without_prefix)
    with pytest.raises(CommandError):
        call_command("mcp_doctor", "https://site.example/app/mcp")
    output = capsys.readouterr().out
    assert output.count("The 401 names the metadata of /mcp, and not of /app/mcp") == 1
    assert "set FORCE_SCRIPT_NAME to '/app'" in output


def test_cache_that_is_away(doctor: Doctor, settings: Settings) -> None:
    location = "redis://127.0.0.1:1/0"
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": location}
    }
    check_failure(doctor, "The cache 'default' does not answer: ConnectionError", "correct CACHES")


def test_issuer_that_cannot_be_reached(doctor: Doctor, serve_with: Callable[..., Server]) -> None:
    serve_with(JWTAuthentication("https://login.example"))
    check_failure(doctor, "The issuer https://login.example does not answer", "Start the author")


@pytest.mark.parametrize("fault", ["missing", "below a path", "of the toolkit"])
def test_urls_that_are_not_included_at_the_root(
    doctor: Doctor, urls: Callable[..., None], fault: str
) -> None:
    included = {
        "missing": [],
        "below a path": [path("auth/", OAUTH)],
        "of the toolkit": [path("o/", include("oauth2_provider.urls"))],
    }
    urls(LOGIN, *included[fault])
    check_failure(doctor, "E002", 'path("", include("django_mcp.contrib.oauth.urls"))')
    check_failure(doctor, "has no metadata", 'path("", include("django_mcp.contrib.oauth.urls"))')


def test_server_of_another_project_is_examined_from_outside_only(
    doctor: Doctor, settings: Settings
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": "https://other.example"}
    assert "This project" not in doctor()[1]


def test_stated_url_without_a_path_is_no_prefix_that_a_proxy_removes() -> None:
    wanted = "https://site.example/mcp"
    for stated in ("https://site.example", "https://site.example/"):
        remedy = difference_remedy(wanted, stated, "give clients that URL")
        assert remedy == "Correct the path, or give clients that URL."
