"""String permissions: Django's own question, asked of every backend, and remembered for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import models

from django_mcp import Frame, Server
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.core.auth import permissions
from django_mcp.core.auth.base import Principal
from django_mcp.pubsub import revocations
from tests.memory_stores import Configure, configure
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

PERMISSION = "auth.view_user"
TOKENS = "django_mcp.auth.token.TokenAuthentication"
asked: list[str] = []
"""What was asked of a Counting backend."""


class Strict(ModelBackend):
    """Refuses everybody; it knows no asynchronous twin, as nearly all backends that exist."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return False


class Granting(BaseBackend):
    """Grants by rules of its own."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm == PERMISSION


class Counting(ModelBackend):
    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        asked.append(perm)
        return super().has_perm(user_obj, perm, obj)


class Member(AbstractBaseUser):
    """The custom user of Django's documentation: it has no ahas_perm."""

    email = models.EmailField(unique=True)
    USERNAME_FIELD = "email"

    class Meta:
        app_label = "shop"
        managed = False

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return self.email == "ann@example.org" and perm == PERMISSION


@pytest.fixture
def wire(configure: Configure) -> AsgiClient:
    """One endpoint, and so one cache of principals."""
    configure(AUTHENTICATORS=[TOKENS], TOKEN_CACHE_TTL=600)
    asked.clear()
    return AsgiClient(guarded())


def guarded(**options: Any) -> Server:
    server = Server("shop", **options)
    server.tool(description="Guarded.", permission=PERMISSION)(users)
    server.tool(description="For deleting.", permission="auth.delete_user")(drop)
    return server


def users() -> str:
    return "secret"


def drop() -> str:
    return "dropped"


@pytest.fixture
async def ann() -> User:
    return await User.objects.acreate(username="ann")


async def headers_of(user: User) -> Mapping[str, str]:
    _, token = await sync_to_async(PersonalAccessToken.objects.issue)(user, "Laptop")
    return {"authorization": f"Bearer {token}"}


async def grant(user: User, name: str = PERMISSION) -> Permission:
    permission = await Permission.objects.aget(codename=name.partition(".")[2])
    await user.user_permissions.aadd(permission)
    return permission


async def allowed(wire: AsgiClient, headers: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether the guarded tool is listed, and whether it runs."""
    listing = (await wire.post(wire.request("tools/list"), headers)).json()["result"]["tools"]
    call = (await wire.post(wire.call("users"), headers)).json()
    return "users" in [tool["name"] for tool in listing], "result" in call


# Who decides.


@pytest.mark.parametrize(
    ("backend", "is_granted", "expected"),
    [
        (Strict, True, False),
        (Granting, False, True),
        (ModelBackend, True, True),
        (ModelBackend, False, False),
    ],
)
async def test_backend_of_the_site_decides(
    wire: AsgiClient, ann: User, settings: Any, backend: type, is_granted: bool, expected: bool
) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{backend.__module__}.{backend.__qualname__}"]
    if is_granted:
        await grant(ann)

    assert await allowed(wire, await headers_of(ann)) == (expected, expected)


@pytest.mark.parametrize(("email", "expected"), [("ann@example.org", True), ("b@b.org", False)])
async def test_user_without_an_asynchronous_question_is_asked(
    configure: Configure, email: str, expected: bool
) -> None:
    class Everybody:
        async def authenticate(self, scope: Any, /) -> Principal:
            return Principal(scheme="site", user=Member(pk=1, email=email))

    wire = AsgiClient(guarded(authenticators=[Everybody()]))
    assert await allowed(wire, {}) == (expected, expected)


async def test_toolset_asks_the_same_question(ann: User) -> None:
    from django_mcp.toolsets import access

    permissions.remember(ann, float("inf"))
    frame = Frame(user=ann)
    before = await sync_to_async(access.may)(frame, PERMISSION)
    await grant(ann)

    assert before is False
    assert permissions.at_hand(ann, PERMISSION) is False
    assert await sync_to_async(access.may)(Frame(user=ann), "superuser") is False
    permissions.forget(ann)
    fresh = await User.objects.aget(pk=ann.pk)
    assert await sync_to_async(access.may)(Frame(user=fresh), PERMISSION)


async def test_nobody_has_a_permission() -> None:
    assert permissions.has(None, PERMISSION) is False
    assert permissions.has(AnonymousUser(), "login_required") is False


# How long an answer counts.


@pytest.fixture
def counting(settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Counting"]


@pytest.mark.usefixtures("counting")
async def test_cached_token_asks_each_permission_once(wire: AsgiClient, ann: User) -> None:
    await grant(ann)
    headers = await headers_of(ann)

    assert [await allowed(wire, headers) for _ in range(3)] == [(True, True)] * 3
    assert sorted(asked) == ["auth.delete_user", PERMISSION]


@pytest.mark.usefixtures("counting")
async def test_unknown_tool_costs_what_a_hidden_one_costs(wire: AsgiClient, ann: User) -> None:
    headers = await headers_of(ann)
    counts = []
    for name in ("unknown", "users", "unknown", "drop", "users"):
        asked.clear()
        await wire.post(wire.call(name), headers)
        counts.append(len(asked))

    assert counts == [2, 0, 0, 0, 0]


@pytest.mark.usefixtures("counting")
async def test_permission_is_asked_at_each_call_where_nothing_is_cached(
    ann: User, configure: Configure
) -> None:
    configure(AUTHENTICATORS=[TOKENS], TOKEN_CACHE_TTL=None)
    asked.clear()
    wire = AsgiClient(guarded())
    headers = await headers_of(ann)

    for _ in range(3):
        await wire.post(wire.call("users"), headers)

    assert asked == [PERMISSION] * 3


@pytest.mark.usefixtures("counting")
async def test_answer_ends_with_the_cached_principal(ann: User, configure: Configure) -> None:
    configure(AUTHENTICATORS=[TOKENS], TOKEN_CACHE_TTL=0.5)
    wire = AsgiClient(guarded())
    headers = await headers_of(ann)
    assert await allowed(wire, headers) == (False, False)
    # No signal tells of this.
    permission = await Permission.objects.aget(codename="view_user")
    await User.user_permissions.through.objects.acreate(user=ann, permission=permission)

    await asyncio.sleep(0.6)

    assert await allowed(wire, headers) == (True, True)


@pytest.mark.parametrize(
    "how", ["user", "user from the permission", "group", "group from the user", "superuser"]
)
async def test_granted_permission_counts_at_the_next_call(
    wire: AsgiClient, ann: User, how: str
) -> None:
    headers = await headers_of(ann)
    permission = await Permission.objects.aget(codename="view_user")
    group = await Group.objects.acreate(name="readers")
    if how == "group":
        await ann.groups.aadd(group)
    if how == "group from the user":
        await group.permissions.aadd(permission)
    assert await allowed(wire, headers) == (False, False)

    if how == "user":
        await ann.user_permissions.aadd(permission)
    elif how == "user from the permission":
        await permission.user_set.aadd(ann)
    elif how == "group":
        await group.permissions.aadd(permission)
    elif how == "group from the user":
        await group.user_set.aadd(ann)
    else:
        ann.is_superuser = True
        await ann.asave()

    assert await allowed(wire, headers) == (True, True)


@pytest.mark.parametrize("how", ["clear", "leave", "take", "delete group", "delete permission"])
async def test_revoked_permission_counts_at_the_next_call(
    wire: AsgiClient, ann: User, how: str
) -> None:
    headers = await headers_of(ann)
    permission = await Permission.objects.aget(codename="view_user")
    group = await Group.objects.acreate(name="readers")
    if how == "clear":
        await ann.user_permissions.aadd(permission)
    else:
        await group.permissions.aadd(permission)
        await ann.groups.aadd(group)
    assert await allowed(wire, headers) == (True, True)

    if how == "clear":
        await ann.user_permissions.aclear()
    elif how == "leave":
        await group.user_set.aclear()
    elif how == "take":
        await group.permissions.aremove(permission)
    elif how == "delete group":
        await group.adelete()
    else:
        await permission.adelete()

    assert await allowed(wire, headers) == (False, False)
    if how == "delete permission":
        await permission.asave(force_insert=True)


async def test_change_on_another_worker_counts_at_the_next_call(
    wire: AsgiClient, ann: User
) -> None:
    headers = await headers_of(ann)
    assert await allowed(wire, headers) == (False, False)
    permission = await Permission.objects.aget(codename="view_user")
    await User.user_permissions.through.objects.acreate(user=ann, permission=permission)

    revocations._receive({"digest": None, "user": str(ann.pk)})

    assert await allowed(wire, headers) == (True, True)


async def test_change_is_published_to_other_workers(
    wire: AsgiClient, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Any] = []
    monkeypatch.setattr(revocations, "_publish", lambda message: published.append(message["user"]))
    group = await Group.objects.acreate(name="readers")

    await ann.groups.aadd(group)
    await group.permissions.aadd(await Permission.objects.aget(codename="view_user"))

    assert published == [str(ann.pk), None]


async def test_answer_for_one_user_is_no_answer_for_another(ann: User) -> None:
    root = await User.objects.acreate(username="root", is_superuser=True)
    permissions.remember(root, float("inf"))

    assert await sync_to_async(permissions.has)(root, PERMISSION)
    assert permissions.at_hand(ann, PERMISSION) is None
    assert not await sync_to_async(permissions.has)(ann, PERMISSION)


async def test_answer_that_was_asked_before_a_change_is_not_remembered(ann: User) -> None:
    permissions.remember(ann, float("inf"))

    def has_perm(permission: str) -> bool:
        permissions.forget(ann)
        return True

    ann.has_perm = has_perm  # type: ignore[method-assign, assignment]

    assert permissions.has(ann, PERMISSION)
    assert permissions.at_hand(ann, PERMISSION) is None
