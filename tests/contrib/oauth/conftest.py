"""A site with an MCP server, and the authorization server for it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache

from django_mcp import Frame, Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.contrib.oauth import provider_settings
from tests import databases
from tests.contrib.oauth.flow import CALLBACK, Flow, document
from tests.memory_stores import MEMORY

if TYPE_CHECKING:
    from pytest_django import Settings

SCOPES = {"mcp": "Use the shop", "write": "Change the prices"}


@pytest.fixture
def shop() -> Server:
    """A server for which a token is needed."""
    from django_mcp.auth.oauth_toolkit import OAuthToolkitAuthentication

    shop = Server("shop", path="/mcp", authenticators=[OAuthToolkitAuthentication()])
    shop.describe(name="shop", title="The tea shop", version="1")

    @shop.tool
    def whoami(frame: Frame) -> str:
        """Say who calls."""
        assert frame.auth is not None
        return f"{frame.user.username} by {frame.auth.claims['client_id']}"

    @shop.tool(scopes=["write"], when_denied="challenged")
    def reprice() -> str:
        """Change a price."""
        return "Done."

    return shop


@pytest.fixture(autouse=True)
def site(
    db: None,
    thread_sensitive: None,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    request: Any,
) -> Iterator[None]:
    """The settings of the site, and its servers: the shop, and one for everybody."""
    settings.ROOT_URLCONF = "tests.contrib.oauth.urls"
    settings.LOGIN_URL = "login"
    # The toolkit hashes the secret of each application.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ALLOWED_HOSTS = ["site.example"]
    settings.DJANGO_MCP = {
        "STORES": MEMORY,
        "ALLOWED_ORIGINS": ["https://page.example"],
    }
    # Otherwise the toolkit keeps what it made of the settings of another test.
    settings.OAUTH2_PROVIDER = provider_settings(SCOPES, ALWAYS_RELOAD_OAUTHLIB_CORE=True)
    shop = request.getfixturevalue("shop")
    public = Server("public", path="/public", authenticators=[AnonymousAuthentication()])
    default = Server("mcp")
    servers = {each.name: each for each in (default, shop, public)}
    monkeypatch.setattr(registry, "default", default)
    monkeypatch.setattr(registry.registered, "servers", servers)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Publishes metadata documents; nothing leaves this machine."""
    found: dict[str, dict[str, Any]] = {}

    @contextmanager
    def open_url(url: str, **_: Any) -> Iterator[Any]:
        published = found.get(url)
        yield SimpleNamespace(
            status=404 if published is None else 200,
            headers={"Content-Type": "application/json"},
            read=io.BytesIO(json.dumps(published).encode()).read,
        )

    monkeypatch.setattr("django_mcp.contrib.oauth.documents.open_url", open_url)

    def publish(name: str, **changes: Any) -> dict[str, Any]:
        published = {**document(name), **changes}
        found[published["client_id"]] = published
        return published

    return publish


@pytest.fixture
def flow(documents: Callable[..., Any], user: User) -> Flow:
    return Flow(documents("claude_ai")["client_id"], CALLBACK, user)


class Everything:
    """Routes every model to one database."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self._alias

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return self._alias


@pytest.fixture(params=databases.KINDS)
def real_database(
    request: Any, tmp_path: Path, settings: Settings, site: None, django_db_blocker: Any
) -> Iterator[str]:
    """A database of its own, in which transactions of several threads meet."""
    if reason := databases.why_not_database(request.param):
        pytest.skip(reason)
    options = {"OPTIONS": {"timeout": 20}} if request.param == "sqlite3" else {}
    with (
        django_db_blocker.unblock(),
        databases.scratch_database(request.param, tmp_path, **options) as alias,
    ):
        settings.DATABASE_ROUTERS = [Everything(alias)]
        yield alias
        settings.DATABASE_ROUTERS = []
