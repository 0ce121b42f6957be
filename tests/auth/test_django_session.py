"""The session cookie: it identifies users, and no page of another origin can use it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User

from django_mcp import Frame, Server
from django_mcp.auth.django_session import CROSS_SITE, DjangoSessionAuthentication
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.testing.asgi import http_scope
from tests.auth.issuer import authenticated
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

SESSION = "django_mcp.auth.django_session.DjangoSessionAuthentication"
TOKENS = "django_mcp.auth.token.TokenAuthentication"
ANONYMOUS = "django_mcp.auth.anonymous.AnonymousAuthentication"
FOREIGN: tuple[dict[str, str], ...] = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://testserver:8000"},
    {"origin": "https://testserver"},
    {"origin": "http://app.testserver"},
    {"origin": "http://testserver.evil.example"},
    {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "Same-Origin"},
    {"referer": "https://evil.example/testserver"},
    {"referer": "testserver"},
    {"referer": "http://[a"},
)
OWN: tuple[dict[str, str], ...] = (
    {},
    {"origin": "http://testserver"},
    {"origin": "http://testserver:80"},
    {"origin": "http://testserver", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"referer": "http://testserver/page"},
    {"referer": ""},
    {"referer": "https://evil.example", "sec-fetch-site": "same-origin"},
)


@pytest.fixture
async def ada() -> User:
    return await User.objects.acreate(username="ada")


@pytest.fixture
async def cookie(ada: User) -> Mapping[str, str]:
    """The header of a browser in which Ada is logged in."""
    return await cookie_of(ada, "django.contrib.auth.backends.ModelBackend")


async def cookie_of(user: User, backend: str) -> Mapping[str, str]:
    engine = import_module(django_settings.SESSION_ENGINE)
    session = engine.SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = backend
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["cart"] = "tea"
    await session.asave()
    return {"cookie": f"a=b; sessionid={session.session_key}"}


async def answer_to(headers: Mapping[str, str], **options: Any) -> Principal | Challenge:
    return await authenticated(DjangoSessionAuthentication(), headers=headers, **options)


@pytest.mark.parametrize("headers", OWN, ids=str)
async def test_own_page_or_program_is_the_user(
    cookie: Mapping[str, str], headers: Mapping[str, str]
) -> None:
    principal = await answer_to({**cookie, **headers})

    assert isinstance(principal, Principal)
    assert principal.user.username == "ada"


@spec("identity-21")
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_foreign_page_is_rejected(
    cookie: Mapping[str, str], headers: Mapping[str, str]
) -> None:
    assert await answer_to({**cookie, **headers}) == CROSS_SITE


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_foreign_page_without_a_cookie_has_no_credentials(
    headers: Mapping[str, str],
) -> None:
    assert await answer_to(headers) == Challenge()


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_cookie_beside_a_token_of_a_foreign_page_is_ignored(
    cookie: Mapping[str, str], headers: Mapping[str, str]
) -> None:
    assert await answer_to({**cookie, **headers, "authorization": "Bearer a"}) == Challenge()


async def test_deactivated_user_of_any_backend_has_no_credentials(
    ada: User, settings: Settings
) -> None:
    backend = "django.contrib.auth.backends.AllowAllUsersModelBackend"
    settings.AUTHENTICATION_BACKENDS = [backend]
    cookie = await cookie_of(ada, backend)
    active = await answer_to(cookie)

    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)

    assert isinstance(active, Principal)
    assert await answer_to(cookie) == Challenge()


async def test_session_of_a_former_secret_key_keeps_its_cookie(
    cookie: Mapping[str, str], settings: Settings
) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, since the former one was rotated"

    answers = [await answer_to(cookie), await answer_to(cookie)]

    assert [isinstance(answer, Principal) for answer in answers] == [True, True]
    engine = import_module(django_settings.SESSION_ENGINE)
    session = engine.SessionStore(cookie["cookie"].rpartition("=")[2])
    assert await session.aget("cart") == "tea"


@pytest.mark.parametrize("authenticators", [[TOKENS, SESSION], [SESSION, TOKENS], [SESSION]])
async def test_unknown_token_beside_a_cookie_is_rejected(
    cookie: Mapping[str, str], configure: Configure, authenticators: list[str]
) -> None:
    configure(AUTHENTICATORS=authenticators)
    server = Server("shop")
    server.register_tool("name", user_name, description="Name the user.")
    wire = AsgiClient(server)

    own = await wire.post(wire.call("name"), cookie)
    both = await wire.post(wire.call("name"), {**cookie, "authorization": "Bearer expired"})

    assert own.json()["result"]["content"][0]["text"] == "ada tea"
    assert both.status == 401


async def test_valid_token_beside_a_cookie_is_the_caller(
    cookie: Mapping[str, str], configure: Configure
) -> None:
    configure(AUTHENTICATORS=[SESSION, TOKENS])
    bob = await User.objects.acreate(username="bob")
    _, token = await sync_to_async(PersonalAccessToken.objects.issue)(bob, "Laptop")
    server = Server("shop")
    server.register_tool("who", lambda frame: frame.user.username, description="Name the user.")
    wire = AsgiClient(server)

    reply = await wire.post(wire.call("who"), {**cookie, "authorization": f"Bearer {token}"})

    assert reply.json()["result"]["content"][0]["text"] == "bob"


async def test_allowed_origin_may_not_use_the_cookie(
    cookie: Mapping[str, str], configure: Configure
) -> None:
    configure(AUTHENTICATORS=[SESSION, ANONYMOUS], ALLOWED_ORIGINS=["https://app.example"])
    server = Server("shop")
    server.register_tool("name", user_name, description="Name the user.")
    wire = AsgiClient(server)
    page = {"origin": "https://app.example"}

    riding = await wire.post(wire.call("name"), {**page, **cookie})
    bare = await wire.post(wire.call("name"), page)
    own = await wire.post(wire.call("name"), {**cookie, "origin": "http://testserver"})

    assert riding.status == 403
    assert "CSRF_TRUSTED_ORIGINS" in riding.json()["error"]["message"]
    assert bare.json()["result"]["content"][0]["text"] == " None"
    assert own.json()["result"]["content"][0]["text"] == "ada tea"


async def user_name(frame: Frame) -> str:
    cart = await frame.session.aget("cart") if frame.session is not None else None
    return f"{frame.user.get_username()} {cart}"


async def test_handler_of_a_public_server_has_no_session_of_a_foreign_page(
    cookie: Mapping[str, str], configure: Configure
) -> None:
    configure(ALLOWED_ORIGINS=["*"])
    server = Server("shop")
    server.register_tool("name", user_name, description="Name the user.")
    wire = AsgiClient(server)

    foreign = await wire.post(wire.call("name"), {"origin": "https://evil.example", **cookie})
    own = await wire.post(wire.call("name"), {"origin": "http://testserver", **cookie})

    assert foreign.json()["result"]["content"][0]["text"] == " None"
    assert own.json()["result"]["content"][0]["text"] == " tea"


@pytest.mark.parametrize(
    "origin", ["https://app.example", "https://a.parts.example", "https://b.a.parts.example"]
)
async def test_trusted_origin_may_use_the_cookie(
    cookie: Mapping[str, str], settings: Settings, origin: str
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://app.example", "https://*.parts.example", "*"]

    assert isinstance(await answer_to({**cookie, "origin": origin}), Principal)
    assert await answer_to({**cookie, "origin": "https://evil.example"}) == CROSS_SITE
    assert await answer_to({**cookie, "origin": "http://app.example"}) == CROSS_SITE


async def test_origin_behind_a_proxy_is_that_of_the_site(
    cookie: Mapping[str, str], settings: Settings
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    proxy = {**cookie, "x-forwarded-proto": "https"}

    assert isinstance(await answer_to({**proxy, "origin": "https://testserver"}), Principal)
    assert await answer_to({**proxy, "origin": "http://testserver"}) == CROSS_SITE


async def test_origin_of_the_base_url_is_that_of_the_site(
    cookie: Mapping[str, str], configure: Configure
) -> None:
    configure(BASE_URL="https://example.org/shop")

    assert isinstance(await answer_to({**cookie, "origin": "https://example.org"}), Principal)
    assert isinstance(await answer_to({**cookie, "origin": "http://testserver"}), Principal)
    assert await answer_to({**cookie, "origin": "http://example.org"}) == CROSS_SITE


async def test_session_of_a_middleware_is_not_used_for_a_foreign_page(
    cookie: Mapping[str, str],
) -> None:
    authenticator = DjangoSessionAuthentication()
    session = import_module(django_settings.SESSION_ENGINE).SessionStore(
        cookie["cookie"].rpartition("=")[2]
    )
    scope = {**http_scope(headers={}), "session": session}
    foreign = {**http_scope(headers={"origin": "https://evil.example"}), "session": session}

    assert isinstance(await authenticator.authenticate(scope), Principal)
    assert await authenticator.authenticate(foreign) is None


async def test_session_of_a_middleware_is_read_again_at_each_check(
    cookie: Mapping[str, str],
) -> None:
    authenticator = DjangoSessionAuthentication()
    engine = import_module(django_settings.SESSION_ENGINE)
    key = cookie["cookie"].rpartition("=")[2]
    scope = {**http_scope(headers=cookie), "session": engine.SessionStore(key)}

    before = [await authenticator.authenticate(scope) for _ in range(2)]
    await engine.SessionStore(key).aflush()
    after = await authenticator.authenticate(scope)

    assert all(isinstance(each, Principal) for each in before)
    assert after is None


async def test_deactivated_user_is_not_accepted(ada: User, cookie: Mapping[str, str]) -> None:
    await User.objects.aupdate(is_active=False)

    assert await answer_to(cookie) == Challenge()


# The challenge.


async def test_challenge_of_a_cookie_does_not_ask_for_a_token(configure: Configure) -> None:
    configure(AUTHENTICATORS=[SESSION])
    wire = AsgiClient(Server("shop"))

    reply = await wire.post(wire.request("tools/list"))

    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Cookie")


async def test_challenge_of_a_token_is_the_first() -> None:
    from django_mcp.auth.authentication import Authentication
    from django_mcp.auth.resource import Resource

    class Tokens:
        """It states no scheme, as authenticators of earlier versions do."""

        async def authenticate(self, scope: Any, /) -> None:
            return None

    both = Authentication([DjangoSessionAuthentication(), Tokens()], Resource("/mcp"))

    headers = both.headers(http_scope(), Challenge())

    assert headers == ((b"www-authenticate", b"Bearer"), (b"www-authenticate", b"Cookie"))
