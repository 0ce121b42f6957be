"""The consent page, what it remembers, and the page on which it is taken back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client as Browser
from django.utils import timezone
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_refresh_token_model,
)

from django_mcp import Server
from django_mcp.auth.oauth_toolkit import OAuthToolkitAuthentication
from django_mcp.contrib.oauth.models import Consent
from django_mcp.core.auth.base import INVALID_TOKEN, Principal
from django_mcp.transports.http import open_streams
from tests.contrib.oauth.flow import (
    CALLBACK,
    ENDPOINT,
    PAGE,
    SITE,
    Flow,
    call,
    document,
    hidden,
    issued,
    post,
    query,
)
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import STATELESS

if TYPE_CHECKING:
    from pytest_django import Settings


def registered(user: User, redirect_uri: str) -> Flow:
    metadata = document("cursor.registration")
    response = post("/o/register", metadata, content_type="application/json")
    return Flow(response.json()["client_id"], redirect_uri, user)  # type: ignore[attr-defined]


def access(flow: Flow, key: int | str | None = None) -> Any:
    """Open the page, or take back one consent."""
    if key is None:
        return flow.browser.get("/o/access", **PAGE)
    page = flow.browser.get("/o/access", **PAGE).content.decode()
    token = {"csrfmiddlewaretoken": hidden(page).get("csrfmiddlewaretoken", "")}
    own: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/access"}
    return flow.browser.post("/o/access", {"consent": key, **token}, **PAGE, **own)


def test_consent_page_names_client_hosts_server_scopes_and_account(flow: Flow) -> None:
    page = flow.open(scope="mcp write").content.decode()
    for text in ("Claude", "(claude.ai)", "The tea shop", ENDPOINT, "Use the shop", "ann"):
        assert text in page
    assert "Change the prices" in page
    assert "nobody has verified it" not in page


@pytest.mark.parametrize(
    ("redirect_uri", "text"),
    [
        ("cursor://anysphere.cursor-mcp/oauth/callback", "opens cursor://"),
        ("http://localhost:8787/callback", "a program on this computer (localhost:8787)"),
        ("https://www.cursor.com/agents/mcp/oauth/callback", "<dd>www.cursor.com</dd>"),
    ],
)
def test_consent_page_names_where_access_is_sent(redirect_uri: str, text: str, user: User) -> None:
    page = registered(user, redirect_uri).open().content.decode()
    assert text in page
    assert "nobody has verified it" in page


def reauthenticated(principal: Principal) -> Any:
    return async_to_sync(OAuthToolkitAuthentication().reauthenticate)(principal)


@spec("identity-30")
def test_program_goes_on_with_the_server_that_the_user_allows(flow: Flow, user: User) -> None:
    tokens = flow.tokens(scope="mcp write")
    claims = {"client_id": flow.client_id, "resource": ["https://SITE.example/mcp"]}
    scopes = frozenset({"mcp", "write", "other"})
    principal = Principal(scheme="oauth", user=user, scopes=scopes, claims=claims)
    elsewhere = replace(principal, claims={**claims, "resource": [f"{SITE}/public"]})

    assert reauthenticated(principal).scopes == {"mcp", "write"}
    assert reauthenticated(elsewhere) == INVALID_TOKEN
    assert reauthenticated(replace(principal, claims={})) == INVALID_TOKEN

    token = get_access_token_model().objects.get()
    token.expires = timezone.now() - timedelta(days=1)
    token.save()
    assert reauthenticated(principal).scopes == {"mcp", "write"}  # It can be refreshed.
    flow.revoke(tokens["refresh_token"])
    assert reauthenticated(principal) == INVALID_TOKEN


def test_refresh_token_that_is_too_old_lets_no_program_go_on(
    flow: Flow, user: User, settings: Settings
) -> None:
    flow.tokens()
    claims = {"client_id": flow.client_id, "resource": [ENDPOINT]}
    principal = Principal(scheme="oauth", user=user, scopes=frozenset({"mcp"}), claims=claims)
    token = get_access_token_model().objects.get()
    token.expires = timezone.now() - timedelta(minutes=2)
    token.save()
    options = settings.OAUTH2_PROVIDER
    settings.OAUTH2_PROVIDER = {**options, "REFRESH_TOKEN_EXPIRE_SECONDS": 60}
    assert reauthenticated(principal) == INVALID_TOKEN
    settings.OAUTH2_PROVIDER = {**options, "REFRESH_TOKEN_EXPIRE_SECONDS": 600}
    assert reauthenticated(principal) == principal


def test_access_that_is_taken_back_ends_tokens_of_another_spelling(flow: Flow) -> None:
    tokens = flow.tokens()
    assert call(tokens["access_token"]).status == 200
    for model in (get_access_token_model(), get_refresh_token_model()):
        model.objects.update(resource=["https://SITE.example/mcp"])
    access(flow, Consent.objects.get().pk)
    assert not get_access_token_model().objects.exists()
    assert flow.refresh(tokens["refresh_token"]).status_code == 400


def test_consent_is_remembered_for_the_same_scopes(flow: Flow) -> None:
    flow.tokens()
    again = flow.open()
    assert again.status_code == 302
    code = query(again["Location"])["code"]
    assert query(again["Location"])["iss"] == SITE
    assert call(flow.token(code).json()["access_token"]).status == 200  # type: ignore[attr-defined]
    assert flow.open(scope="mcp write").status_code == 200
    assert flow.open(prompt="consent").status_code == 200


def test_scopes_that_were_allowed_one_after_another_are_all_remembered(flow: Flow) -> None:
    flow.tokens()
    flow.tokens(scope="write")
    assert flow.open(scope="mcp write").status_code == 302


def test_denial_is_not_remembered(flow: Flow) -> None:
    flow.answer(flow.open(), allow=False)
    assert flow.open().status_code == 200


@pytest.mark.parametrize(
    "uri", ["http://localhost:8787/callback", "cursor://anysphere.cursor-mcp/oauth/callback"]
)
def test_user_is_prompted_each_time_where_any_program_could_receive_the_code(
    uri: str, user: User
) -> None:
    flow = registered(user, uri)
    flow.tokens()
    assert flow.open().status_code == 200


def test_consent_of_one_user_does_not_count_for_another(flow: Flow) -> None:
    flow.tokens()
    other = User.objects.create_user("bob")
    assert Flow(flow.client_id, CALLBACK, other).open().status_code == 200


@spec("AUTH-11", "identity-19")
def test_consent_for_one_registered_client_does_not_count_for_another(user: User) -> None:
    uri = "https://www.cursor.com/agents/mcp/oauth/callback"
    first, second = registered(user, uri), registered(user, uri)
    first.tokens()
    assert first.open().status_code == 302
    assert second.open().status_code == 200


def test_access_page_lists_what_the_user_allowed(flow: Flow) -> None:
    assert "No program may use your account" in access(flow).content.decode()
    flow.tokens()
    page = access(flow).content.decode()
    for text in ("Claude", "claude.ai", "The tea shop", ENDPOINT, "Use the shop"):
        assert text in page
    assert access(flow)["X-Frame-Options"] == "DENY"


def test_taking_it_back_ends_tokens_codes_and_the_consent(flow: Flow) -> None:
    from django_mcp.contrib.oauth.models import Consent

    first, second = flow.tokens(), flow.tokens(scope="mcp write")
    code = query(flow.open()["Location"])["code"]
    assert call(first["access_token"]).status == 200
    assert access(flow, Consent.objects.get().pk).status_code == 302
    for tokens in (first, second):
        assert call(tokens["access_token"]).status == 401
        assert flow.refresh(tokens["refresh_token"]).status_code == 400
    assert flow.token(code).status_code == 400
    assert flow.open().status_code == 200
    assert "No program may use your account" in access(flow).content.decode()


def test_consent_of_another_form_than_a_key_does_not_exist(flow: Flow) -> None:
    flow.tokens()
    for key in ("x", "²", "9" * 5000):
        assert access(flow, key).status_code == 404


def test_new_password_ends_what_the_user_allowed(flow: Flow, user: User) -> None:
    tokens = flow.tokens()
    code = query(flow.open()["Location"])["code"]
    assert call(tokens["access_token"]).status == 200

    user.set_password("Kq7-new-word")
    user.save()

    assert call(tokens["access_token"]).status == 401
    assert flow.refresh(tokens["refresh_token"]).status_code == 400
    assert flow.token(code).status_code == 400


def test_registrations_of_one_program_are_one_entry_and_are_taken_back_together(
    user: User,
) -> None:
    from django_mcp.contrib.oauth.models import Consent

    uri = "https://www.cursor.com/agents/mcp/oauth/callback"
    first, second = registered(user, uri), registered(user, uri)
    tokens = [first.tokens(), second.tokens()]
    page = access(first).content.decode()
    assert page.count("Take back Cursor") == 1
    assert access(first, Consent.objects.all()[0].pk).status_code == 302
    assert not Consent.objects.exists()
    assert [call(each["access_token"]).status for each in tokens] == [401, 401]


def test_programs_of_one_name_with_other_destinations_are_two_entries(user: User) -> None:
    uri = "https://www.cursor.com/agents/mcp/oauth/callback"
    first, second = registered(user, uri), registered(user, uri)
    other = get_application_model().objects.filter(client_id=second.client_id)
    other.update(redirect_uris=(elsewhere := "https://evil.example/callback"))
    second.redirect_uri = elsewhere
    first.tokens()
    second.tokens()
    page = access(first).content.decode()
    assert page.count("Take back Cursor") == 2
    assert "evil.example" in page


def test_access_page_tells_the_last_use(flow: Flow) -> None:
    tokens = flow.tokens()
    long_ago = timezone.now() - timedelta(days=400)
    get_access_token_model().objects.update(created=long_ago)
    assert f"{long_ago:%Y}" in access(flow).content.decode()
    flow.refresh(tokens["refresh_token"])
    assert f"{long_ago:%Y}" not in access(flow).content.decode()


def test_pages_link_to_those_that_the_site_has_and_home(flow: Flow) -> None:
    page = access(flow).content.decode()
    assert '<a class="site" href="/">site.example</a>' in page
    assert '<a href="/o/access" aria-current="page">Connected programs</a>' in page
    assert "Access tokens</a>" not in page, "this site has no page of tokens"


def test_user_who_is_somebody_else_logs_out_and_is_asked_again(flow: Flow) -> None:
    page = flow.open()
    fields = {"csrfmiddlewaretoken": hidden(page.content.decode())["csrfmiddlewaretoken"]}
    own: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/authorize"}
    url = f"/o/authorize?{urlencode(flow.parameters())}"
    answer = flow.browser.post(url, {**fields, "log_out": "1"}, **PAGE, **own)
    assert answer["Location"] == url
    assert flow.browser.get(url, **PAGE)["Location"].startswith("/accounts/login/?next=")


def test_another_site_cannot_log_a_user_out(flow: Flow) -> None:
    assert flow.browser.post("/o/access", {"log_out": "1"}, **PAGE).status_code == 403
    assert access(flow).status_code == 200


def test_taking_it_back_leaves_other_clients_alone(flow: Flow, user: User) -> None:
    from django_mcp.contrib.oauth.models import Consent

    other = registered(user, "http://localhost:8787/callback")
    kept = other.tokens()
    flow.tokens()
    access(flow, Consent.objects.get(application__client_id=flow.client_id).pk)
    assert call(kept["access_token"]).status == 200


def test_consent_of_another_user_cannot_be_taken_back(flow: Flow) -> None:
    from django_mcp.contrib.oauth.models import Consent

    tokens = flow.tokens()
    other = Flow(flow.client_id, CALLBACK, User.objects.create_user("bob"))
    other.tokens()
    own = Consent.objects.get(user__username="ann").pk
    assert access(other, own).status_code == 404
    assert access(other, "x").status_code == 404
    assert access(other, "9" * 5000).status_code == 404
    assert call(tokens["access_token"]).status == 200


def test_access_page_needs_a_login_and_a_form_of_its_own(flow: Flow) -> None:
    flow.tokens()
    assert Browser().get("/o/access", **PAGE)["Location"].startswith("/accounts/login/")
    own: dict[str, Any] = {"HTTP_REFERER": f"{SITE}/o/access"}
    response = flow.browser.post("/o/access", {"consent": "1"}, **PAGE, **own)
    assert response.status_code == 403


def test_title_of_an_unknown_resource_is_empty() -> None:
    from django_mcp.contrib.oauth import resources

    assert resources.title(SITE, "https://other.example/mcp") == ""


def test_migrations_are_complete() -> None:
    call_command("makemigrations", "django_mcp_oauth", check=True, dry_run=True, verbosity=0)


def test_open_stream_ends_after_the_user_took_it_back(
    shop: Server, user: User, settings: Settings
) -> None:
    from oauth2_provider.models import AccessToken

    settings.ALLOWED_HOSTS = ["testserver"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "BASE_URL": SITE}
    token = issued(user)

    async def listen() -> None:
        peer = AsgiClient(shop, STATELESS, headers={"authorization": f"Bearer {token}"})
        async with peer.open_post(peer.listen(id=1)) as stream:
            await stream.message()
            (held,) = open_streams.here().streams
            await held.check()
            assert [each.is_denied for each in (held,)] == [False]
            await AccessToken.objects.all().adelete()
            await held.check()
            assert held.is_denied
            assert "result" in await stream.message()

    async_to_sync(listen)()
