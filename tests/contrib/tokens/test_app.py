"""The app: its migrations, its system checks, and revocations on all workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import transaction

from django_mcp.auth import cache as caches
from django_mcp.auth.cache import Loaded, PrincipalCache
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.core.auth.base import Principal
from django_mcp.core.concurrency import loops
from django_mcp.pubsub import bus, channel_layer, revocations
from tests.memory_stores import configure

__all__ = ["configure"]

TOKENS = ["django_mcp.auth.token.TokenAuthentication"]


@pytest.mark.django_db
def test_migrations_are_complete() -> None:
    call_command("makemigrations", "django_mcp_tokens", check=True, dry_run=True, verbosity=0)


def found(prefix: str) -> list[str]:
    ids = [str(each.id) for each in run_checks(tags=["django_mcp"])]
    return [each for each in ids if each.startswith(prefix)]


def test_app_without_an_authenticator_is_reported(configure: Any) -> None:
    assert found("django_mcp_tokens") == ["django_mcp_tokens.W001"]
    configure(AUTHENTICATORS=TOKENS)
    assert found("django_mcp_tokens") == []


def test_app_that_is_not_installed_is_not_checked(configure: Any, settings: Any) -> None:
    settings.INSTALLED_APPS = [each for each in settings.INSTALLED_APPS if each[-6:] != "tokens"]
    assert found("django_mcp_tokens") == []


def test_authenticator_without_the_app_is_reported(configure: Any, settings: Any) -> None:
    configure(AUTHENTICATORS=TOKENS)
    assert "django_mcp.E005" not in found("django_mcp.")
    settings.INSTALLED_APPS = [each for each in settings.INSTALLED_APPS if each[-6:] != "tokens"]
    assert "django_mcp.E005" in found("django_mcp.")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is published to other workers, over a layer that takes everything."""
    messages: list[Any] = []

    class Layer:
        async def group_send(self, group: str, message: Any) -> None:
            messages.extend(map(tuple, message["hints"]))

        async def group_add(self, group: str, channel: str) -> None:
            pass

        async def group_discard(self, group: str, channel: str) -> None:
            pass

        async def new_channel(self) -> str:
            return "channel"

        async def receive(self, channel: str) -> Any:
            await asyncio.Event().wait()

    monkeypatch.setattr(channel_layer, "shared", lambda: Layer())
    return messages


@pytest.mark.django_db(transaction=True)
def test_revocation_is_published_when_it_is_committed(published: list[Any]) -> None:
    user = User.objects.create_user("ann")
    row, token = PersonalAccessToken.objects.issue(user, "laptop")
    published.clear()
    with transaction.atomic():
        row.revoke()
        assert published == []
    assert published == [(revocations.GROUP, {"digest": row.digest, "user": None})]
    assert token not in str(published)


@pytest.mark.django_db(transaction=True)
def test_deletion_of_a_token_with_a_deferred_digest_forgets_all(published: list[Any]) -> None:
    row, _ = PersonalAccessToken.objects.issue(User.objects.create_user("ann"), "laptop")
    published.clear()
    PersonalAccessToken.objects.only("pk").get(pk=row.pk).delete()
    assert published == [(revocations.GROUP, {"digest": None, "user": None})]


@pytest.mark.django_db(transaction=True)
def test_change_of_a_user_is_published_but_not_a_login(published: list[Any]) -> None:
    user = User.objects.create_user("ann")
    assert published == []
    user.save(update_fields=["last_login"])
    assert published == []
    user.is_active = False
    user.save()
    expected = (revocations.GROUP, {"digest": None, "user": str(user.pk)})
    assert published == [expected]
    user.delete()
    assert published[-1] == expected


async def keep(cache: PrincipalCache, digest: str, pk: int) -> None:
    async def load() -> Loaded:
        return Loaded(Principal(scheme="token", user=User(pk=pk)), None)

    await cache.find(load, digest)


@pytest.fixture
async def subscribed(published: list[Any]) -> AsyncIterator[PrincipalCache]:
    cache = PrincipalCache()
    await keep(cache, "a", 1)
    await keep(cache, "b", 2)
    yield cache
    loops.here(revocations.Subscription).exists = False
    bus.here().unsubscribe(revocations.GROUP, revocations._receive)
    await asyncio.sleep(0.01)


async def test_revocation_on_another_worker_empties_the_cache(subscribed: PrincipalCache) -> None:
    bus.here().receive(revocations.GROUP, {"digest": "a", "user": None})
    assert [bool(subscribed.get(name)) for name in "ab"] == [False, True]
    bus.here().receive(revocations.GROUP, {"digest": None, "user": "2"})
    assert subscribed.get("b") is None
    await keep(subscribed, "c", 3)
    bus.here().receive(revocations.GROUP, {"digest": None, "user": None})
    assert len(subscribed) == 0


@pytest.mark.django_db(transaction=True)
async def test_revocation_within_an_event_loop_is_published(published: list[Any]) -> None:
    user = await User.objects.acreate(username="ann")
    issue = sync_to_async(PersonalAccessToken.objects.issue)
    row, _ = await issue(user, "laptop")
    published.clear()
    await sync_to_async(row.revoke)()
    assert published == [(revocations.GROUP, {"digest": row.digest, "user": None})]
    revocations.publish(digest="x")
    await asyncio.sleep(0.05)
    assert published[-1][1]["digest"] == "x"


def test_forked_child_starts_with_empty_caches() -> None:
    cache = PrincipalCache()
    cache.put(Loaded(Principal(scheme="token", subject="1"), None), "a", forgotten=0)
    assert len(cache) == 1
    cache._lock.acquire()
    caches._reset()
    assert len(cache) == 0
    assert not cache._lock.locked()
