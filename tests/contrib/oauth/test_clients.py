"""Published clients go through the whole flow: register, authorize, token, call, step-up, refresh.

The documents are those which the vendors publish, as servers that fetched them between July and
October 2026 quote them; that of Codex is written from its properties there. The registrations are
what users report that the clients send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from tests.contrib.oauth.flow import SITE, Flow, call, document, post, query
from tests.spec import spec

if TYPE_CHECKING:
    from pytest_django import Settings

PUBLISHED = [
    ("claude_ai", "https://claude.ai/api/mcp/auth_callback"),
    ("claude_code", "http://localhost:3118/callback"),
    ("claude_code", "http://localhost:50123/callback"),
    ("vs_code", "http://127.0.0.1:33418/"),
    ("vs_code", "http://127.0.0.1:50123/"),
    ("vs_code", "https://vscode.dev/redirect"),
    ("chatgpt", "https://chatgpt.com/connector_platform_oauth_redirect"),
    ("chatgpt_connector", "https://chatgpt.com/connector/oauth/j0wKlDBsmsUM"),
    ("codex", "http://127.0.0.1:1455/callback"),
    ("opencode", "http://127.0.0.1:19876/callback"),
]
REGISTERED = [
    *(("cursor", uri) for uri in document("cursor.registration")["redirect_uris"]),
    *(("vs_code", uri) for uri in document("vs_code.registration")["redirect_uris"]),
    *(("codex", uri) for uri in document("codex.registration")["redirect_uris"]),
]


def goes_through(flow: Flow) -> None:
    """Authorize, call, step up, refresh and revoke."""
    tokens = flow.tokens()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    reply = call(tokens["access_token"])
    assert reply.status == 200, reply.body
    assert reply.json()["result"]["content"][0]["text"] == f"ann by {flow.client_id}"

    denied = call(tokens["access_token"], "reprice")
    assert denied.status == 403
    challenge = denied.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="write"' in challenge
    more = flow.tokens(scope="mcp write")
    assert call(more["access_token"], "reprice").status == 200

    refreshed = flow.refresh(more["refresh_token"])
    assert refreshed.status_code == 200, refreshed.content
    newer = refreshed.json()  # type: ignore[attr-defined]
    assert newer["refresh_token"] != more["refresh_token"]
    assert call(more["access_token"]).status == 401
    assert call(newer["access_token"], "reprice").status == 200

    assert flow.revoke(newer["refresh_token"]).status_code == 200
    assert call(newer["access_token"]).status == 401
    assert flow.refresh(newer["refresh_token"]).status_code == 400


@spec("AUTH-RS-29")
@pytest.mark.parametrize(("name", "redirect_uri"), PUBLISHED)
def test_published_client_goes_through_the_whole_flow(
    name: str, redirect_uri: str, documents: Any, user: User
) -> None:
    published = documents(name)
    flow = Flow(published["client_id"], redirect_uri, user)
    page = flow.open().content.decode()
    assert published["client_name"] in page
    assert "The tea shop" in page
    assert f"{SITE}/mcp" in page
    assert "Use the shop" in page
    goes_through(flow)


@pytest.mark.parametrize(("name", "redirect_uri"), REGISTERED)
def test_registered_client_goes_through_the_whole_flow(
    name: str, redirect_uri: str, user: User
) -> None:
    metadata = document(f"{name}.registration")
    response = post("/o/register", metadata, content_type="application/json")
    assert response.status_code == 201, response.content
    registered = response.json()  # type: ignore[attr-defined]
    assert registered["redirect_uris"] == metadata["redirect_uris"]
    assert registered["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in registered
    goes_through(Flow(registered["client_id"], redirect_uri, user))


def test_clients_need_no_login_on_a_site_where_every_page_needs_one(
    documents: Any, user: User, settings: Settings
) -> None:
    middleware = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, middleware]
    goes_through(Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user))


def test_confidential_client_authenticates_with_its_secret(user: User) -> None:
    metadata = {
        "client_name": "Own",
        "redirect_uris": ["https://own.example/cb"],
        "token_endpoint_auth_method": "client_secret_post",
    }
    registered = post("/o/register", metadata, content_type="application/json").json()  # type: ignore[attr-defined]
    flow = Flow(registered["client_id"], "https://own.example/cb", user)
    code = flow.code()
    assert flow.token(code).status_code == 401
    assert flow.token(code, client_secret=registered["client_secret"]).status_code == 200


def test_client_which_names_no_resource_gets_the_only_server(documents: Any, user: User) -> None:
    flow = Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user, resource=None)
    assert call(flow.tokens()["access_token"]).status == 200


def test_client_which_names_no_scope_gets_the_first_one(documents: Any, user: User) -> None:
    flow = Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user, scope=None)
    assert flow.tokens()["scope"] == "mcp"


def test_offline_access_is_granted_where_a_client_asks_for_it(documents: Any, user: User) -> None:
    flow = Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user)
    assert flow.tokens(scope="mcp offline_access")["scope"] == "mcp offline_access"


def test_user_logs_in_on_the_page_of_the_site(documents: Any, user: User) -> None:
    flow = Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user)
    flow.browser.logout()
    response = flow.open()
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/?next=/o/authorize%3F")
    assert query(query(response["Location"])["next"])["client_id"] == flow.client_id


def test_denial_is_reported_to_the_client(documents: Any, user: User) -> None:
    flow = Flow(documents("claude_ai")["client_id"], PUBLISHED[0][1], user)
    found = query(flow.answer(flow.open(), allow=False)["Location"])
    assert found == {"error": "access_denied", "state": "s t&1", "iss": SITE}
