"""Metadata documents: who may let them be fetched, from where, and when their client is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.contrib.auth.models import User
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import Application

from django_mcp.contrib.oauth import documents as metadata_documents
from django_mcp.contrib.oauth.documents import ClientMetadataFetcher
from django_mcp.outbound import OutboundError
from tests.contrib.oauth.flow import CALLBACK, PAGE, Flow, at_once, post, query

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture
def fetched(documents: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts from which documents were fetched."""
    hosts: list[str] = []
    download = ClientMetadataFetcher.download

    def counting(fetcher: ClientMetadataFetcher, client_id: str) -> Any:
        document = download(fetcher, client_id)
        hosts.append(urlsplit(client_id).netloc)
        return document

    monkeypatch.setattr(ClientMetadataFetcher, "download", counting)
    return hosts


def is_stored(flow: Flow) -> bool:
    is_found: bool = Application.objects.filter(client_id=flow.client_id).exists()
    return is_found


# When a client is stored.


def test_client_is_stored_when_a_user_allows_it(flow: Flow, fetched: list[str]) -> None:
    page = flow.open()
    assert page.status_code == 200
    assert not is_stored(flow)
    code = query(flow.answer(page)["Location"])["code"]
    assert is_stored(flow)
    assert flow.token(code).status_code == 200
    assert fetched == ["claude.ai"]


def test_state_may_have_characters_that_browsers_do_not_encode(flow: Flow, documents: Any) -> None:
    parameters = urlencode(flow.parameters(state=None))
    page: Any = flow.browser.get(f"/o/authorize?{parameters}&state=[1]|{{a}}%zz&other", **PAGE)
    assert page.status_code == 200
    assert query(flow.answer(page)["Location"])["state"] == "[1]|{a}%zz"
    # The client is stored meanwhile.
    page = flow.browser.get(f"/o/authorize?{parameters}&state=%zz&other&prompt=consent", **PAGE)
    assert page.status_code == 200
    assert query(flow.answer(page)["Location"])["state"] == "%zz"


def test_client_that_a_user_denied_is_not_stored(flow: Flow) -> None:
    found = query(flow.answer(flow.open(), allow=False)["Location"])
    assert found["error"] == "access_denied"
    assert not is_stored(flow)


def test_client_of_a_form_that_was_changed_is_not_stored(flow: Flow) -> None:
    response = flow.answer(flow.open(), redirect_uri="https://evil.example/")
    assert response.status_code == 400
    assert not is_stored(flow)


def test_client_that_another_user_allows_meanwhile_is_found(
    flow: Flow, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = ClientMetadataFetcher.fetch
    other = Flow(flow.client_id, CALLBACK, User.objects.create_user("ben"))
    page = flow.open()

    def allow_first(fetcher: Any, client_id: str) -> Any:
        monkeypatch.setattr(ClientMetadataFetcher, "fetch", fetch)
        other.tokens()
        return fetch(fetcher, client_id)

    monkeypatch.setattr(ClientMetadataFetcher, "fetch", allow_first)
    assert "code" in query(flow.answer(page)["Location"])
    assert Application.objects.filter(client_id=flow.client_id).count() == 1


@pytest.mark.django_db(transaction=True)
def test_client_that_several_users_allow_at_once_is_stored_once(
    real_database: str, documents: Any
) -> None:
    client_id = documents("claude_ai")["client_id"]
    users = [User.objects.create_user(f"user{number}") for number in range(5)]
    flows = [Flow(client_id, CALLBACK, user) for user in users]
    pages = at_once(5, lambda number: flows[number].open())
    assert [page.status_code for page in pages] == [200] * 5
    redirects = at_once(5, lambda number: flows[number].answer(pages[number]))
    assert all("code" in query(redirect["Location"]) for redirect in redirects)
    assert Application.objects.filter(client_id=client_id).count() == 1


# Who lets documents be fetched.


@pytest.mark.parametrize("path", ["/o/token", "/o/revoke"])
def test_post_without_a_user_fetches_and_stores_nothing(
    path: str, documents: Callable[..., Any], fetched: list[str]
) -> None:
    client_id = documents("claude_ai")["client_id"]
    for _ in range(3):
        response = post(
            path,
            {
                "grant_type": "authorization_code",
                "code": "x",
                "token": "x",
                "client_id": client_id,
                "django_mcp.caller": "x",
            },
            HTTP_DJANGO_MCP_CALLER="x",
        )
        assert response.status_code in (400, 401)
    assert fetched == []
    assert not Application.objects.exists()


def test_fetches_of_one_user_are_bounded(
    documents: Any, user: User, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_documents, "MAX_FETCHES", 2)
    pages = []
    for number in range(4):
        client_id = f"https://host{number}.example/client"
        documents("claude_ai", client_id=client_id)
        flow = Flow(client_id, CALLBACK, user)
        pages.append(flow.open().status_code)
        assert flow.open().status_code == pages[-1]
    assert pages == [200, 200, 400, 400]
    assert fetched == ["host0.example", "host1.example"]
    other = User.objects.create_user("ben")
    assert Flow(client_id, CALLBACK, other).open().status_code == 200


def test_fetches_of_anonymous_requests_are_bounded_by_network(
    documents: Any, user: User, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_documents, "MAX_FETCHES", 2)
    for number in range(4):
        client_id = f"https://host{number}.example/client"
        documents("claude_ai", client_id=client_id)
        flow = Flow(client_id, CALLBACK, user)
        flow.browser.logout()
        flow.browser.defaults["REMOTE_ADDR"] = f"2001:db8:0:1:{number}::1"
        flow.open(prompt="none")
    assert len(fetched) == 2
    assert not Application.objects.exists()
    assert Flow(client_id, CALLBACK, user).open().status_code == 200


def test_fetches_of_a_process_at_one_time_are_bounded(
    documents: Any, user: User, settings: Settings
) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "CIMD_MAX_CONCURRENT_FETCHES": 1}
    flow = Flow(documents("claude_ai")["client_id"], CALLBACK, user)
    assert metadata_documents._running.begin(1)
    try:
        assert flow.open().status_code == 400
    finally:
        metadata_documents._running.end()
    assert flow.open().status_code == 200


# From where they are fetched.


@pytest.mark.parametrize(
    "client_id",
    [
        "http://claude.ai/client",
        "https:///client",
        "https://claude.ai",
        "https://claude.ai:65536/client",
        "https://user@claude.ai/client",
        "https://claude.ai/client#part",
        "https://claude.ai/a/../client",
        "https://[claude.ai/client",
        "https://cl\u0430ude.ai/client",
    ],
)
def test_client_id_that_is_no_url_of_a_document_is_not_fetched(
    client_id: str, fetched: list[str]
) -> None:
    with pytest.raises(CIMDError):
        ClientMetadataFetcher().fetch(client_id)
    assert fetched == []


@pytest.mark.parametrize(
    ("content", "caching"), [(b"[" * 4000, "no-cache"), (b"{}", f"max-age={'9' * 5000}")]
)
def test_document_that_cannot_be_read_is_fetched_once(
    content: bytes, caching: str, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches: list[str] = []

    @contextmanager
    def open_url(url: str, **_: Any) -> Iterator[Any]:
        fetches.append(url)
        headers = {"Content-Type": "application/json", "Cache-Control": caching}
        yield SimpleNamespace(status=200, headers=headers, read=BytesIO(content).read)

    monkeypatch.setattr(metadata_documents, "open_url", open_url)
    assert [flow.open().status_code for _ in range(2)] == [400, 400]
    assert fetches == [flow.client_id]


def test_document_that_is_not_sent_is_an_error(
    documents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(url: str, **_: Any) -> Any:
        raise OutboundError("not_public", "The host has no public address")

    monkeypatch.setattr(metadata_documents, "open_url", refused)
    with pytest.raises(CIMDError, match="no public address"):
        ClientMetadataFetcher().fetch("https://claude.ai/client")
