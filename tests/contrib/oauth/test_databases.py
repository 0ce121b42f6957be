"""Several transactions, and several databases: consents at once, and reads from a replica."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, router
from oauth2_provider.models import AccessToken, Application
from pytest_django import Settings

from django_mcp.contrib.oauth import documents as metadata_documents
from django_mcp.contrib.oauth.models import Consent
from tests import databases
from tests.contrib.oauth.conftest import Everything
from tests.contrib.oauth.flow import CALLBACK, Flow, at_once, call, query

TABS = 5


def body(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = response.json()
    return found


def options_of(kind: str) -> dict[str, Any]:
    """The isolation in which a transaction reads one state of the database."""
    if kind == "mysql":
        return {"OPTIONS": {"isolation_level": "repeatable read"}}
    if kind == "postgresql" and find_spec("psycopg"):
        from psycopg import IsolationLevel

        return {"OPTIONS": {"isolation_level": IsolationLevel.REPEATABLE_READ}}
    return {"OPTIONS": {"timeout": 20}}


@pytest.fixture(params=databases.KINDS)
def repeatable_read(
    request: Any, tmp_path: Path, settings: Settings, site: None, django_db_blocker: Any
) -> Iterator[str]:
    if reason := databases.why_not_database(request.param):
        pytest.skip(reason)
    with (
        django_db_blocker.unblock(),
        databases.scratch_database(request.param, tmp_path, **options_of(request.param)) as alias,
    ):
        settings.DATABASE_ROUTERS = [Everything(alias)]
        yield alias
        settings.DATABASE_ROUTERS = []


def check_consents_at_once(documents: Any) -> None:
    client_id = documents("claude_ai")["client_id"]
    flows = [Flow(client_id, CALLBACK, User.objects.create_user(f"u{n}")) for n in range(TABS)]
    for _ in range(2):
        pages = at_once(TABS, lambda number: flows[number].open(prompt="consent"))
        assert [page.status_code for page in pages] == [200] * TABS
        redirects = at_once(TABS, lambda number: flows[number].answer(pages[number]))  # noqa: B023
        assert all("code" in query(each["Location"]) for each in redirects)
    assert Application.objects.filter(client_id=client_id).count() == 1
    tab = Flow(client_id, CALLBACK, User.objects.create_user("tabs"))
    for scope in ("mcp", "write", "mcp write"):
        pages = [tab.open(prompt="consent", scope=scope) for _ in range(TABS)]
        redirects = at_once(TABS, lambda number: tab.answer(pages[number]))  # noqa: B023
        assert all("code" in query(each["Location"]) for each in redirects)
    consents = Consent.objects.filter(user__username="tabs")
    assert [consent.scope for consent in consents] == ["mcp write"]


@pytest.mark.django_db(transaction=True)
def test_users_and_tabs_allow_a_client_at_once(real_database: str, documents: Any) -> None:
    check_consents_at_once(documents)


@pytest.mark.django_db(transaction=True)
def test_users_and_tabs_allow_a_client_at_once_in_repeatable_read(
    repeatable_read: str, documents: Any
) -> None:
    check_consents_at_once(documents)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("real_database", ["sqlite3"], indirect=True)
def test_document_is_fetched_outside_of_a_transaction(
    real_database: str, documents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_transaction: list[bool] = []
    download = metadata_documents.ClientMetadataFetcher.download

    def note(fetcher: Any, client_id: str) -> Any:
        in_transaction.append(connections[real_database].in_atomic_block)
        return download(fetcher, client_id)

    monkeypatch.setattr(metadata_documents.ClientMetadataFetcher, "download", note)
    user = User.objects.create_user("ann")
    flow = Flow(documents("claude_ai")["client_id"], CALLBACK, user)
    assert flow.open().status_code == 200
    missing = Flow("https://nobody.example/client", CALLBACK, user)
    assert missing.open().status_code == 400
    assert missing.open().status_code == 400
    assert in_transaction == [False, False]


class NoReplica:
    """Reads what this package stores for OAuth, and access tokens, from nowhere."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "nowhere" if model._meta.model_name in self.names else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return None


def test_nothing_of_ours_is_read_from_a_replica(
    flow: Flow, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.contrib.oauth import registrations

    monkeypatch.setattr(router, "routers", [NoReplica("consent", "registration", "redemption")])
    tokens = flow.tokens()
    assert call(tokens["access_token"]).status == 200
    again = body(flow.refresh(tokens["refresh_token"]))
    assert body(flow.refresh(tokens["refresh_token"])) == {
        **again,
        "expires_in": body(flow.refresh(tokens["refresh_token"]))["expires_in"],
    }
    code = flow.code(prompt="consent")
    assert flow.token(code).status_code == 200
    assert flow.token(code).status_code == 400
    application = Application.objects.get()
    registrations.store(application.client_id, "192.0.2.0", {"scope": "mcp"})
    assert registrations.metadata_of(application.client_id)["scope"] == "mcp"
    assert registrations.prune() == 0
    Consent.objects.get().revoke()
    assert call(again["access_token"]).status == 401


def test_access_token_is_not_read_from_a_replica(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = flow.tokens()["access_token"]
    monkeypatch.setattr(router, "routers", [NoReplica("accesstoken", "user", "application")])
    assert call(token).status == 200
    AccessToken.objects.using("default").all().delete()
