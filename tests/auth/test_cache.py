"""The cache of authenticated principals: when it answers, what it copies, and what it forgets."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from django_mcp.auth import cache as cache_module
from django_mcp.auth.cache import Loaded, PrincipalCache, forget
from django_mcp.core.auth.base import INVALID_TOKEN, Challenge, Principal
from tests.memory_stores import configure
from tests.spec import spec

__all__ = ["configure"]


def principal(pk: int = 7, **fields: Any) -> Principal:
    return Principal(scheme="token", user=User(pk=pk, username="ann"), **fields)


def put(
    cache: PrincipalCache,
    *key: str,
    who: Principal | None = None,
    expires_at: float | None = None,
) -> None:
    loaded = Loaded(who or principal(), expires_at)
    cache.put(loaded, *key, forgotten=cache._forgotten)


async def filled(*digests: str, expires_at: float | None = None) -> PrincipalCache:
    cache = PrincipalCache()
    for digest in digests:
        put(cache, digest, expires_at=expires_at)
    return cache


async def test_cached_principal_is_found_by_all_of_its_key() -> None:
    cache = PrincipalCache()
    put(cache, "a", "shop", who=principal(scopes=frozenset({"x"})))
    found = cache.get("a", "shop")
    assert found is not None
    assert (found.key, found.scopes) == ("token:7", frozenset({"x"}))
    assert cache.get("a", "till") is None
    assert cache.get("a") is None
    assert cache.get("b", "shop") is None


async def test_cached_principal_has_all_that_was_kept() -> None:
    fields: dict[str, Any] = {
        "subject": "s",
        "scopes": frozenset({"x"}),
        "claims": {"a": 1},
        "endpoint": "org=a",
        "tenant": "north",
    }
    whole = principal(**fields)
    cache = PrincipalCache()
    put(cache, "a", who=whole)
    # The selection is that of the URL of one request.
    others = {"scheme", "user", "selection"}
    assert set(fields) | others == {field.name for field in dataclasses.fields(whole)}
    assert cache.get("a") == whole


async def test_each_call_has_its_own_user_without_what_another_one_loaded() -> None:
    cache = await filled("a")
    first = cache.get("a")
    assert first is not None
    first.claims["changed"] = True  # type: ignore[index]
    first.user.username = "changed"
    first.user._perm_cache = {"auth.delete_user"}
    first.user._state.fields_cache["profile"] = object()
    second = cache.get("a")
    assert second is not None
    assert second.user == first.user
    assert second.claims == {}
    assert second.user.username == "ann"
    assert not hasattr(second.user, "_perm_cache")
    assert not second.user._state.fields_cache
    assert not second.user._state.adding


async def test_entry_expires_after_the_setting(configure: Any) -> None:
    configure(TOKEN_CACHE_TTL=0.02)
    cache = await filled("a")
    assert cache.get("a")
    time.sleep(0.03)
    assert cache.get("a") is None


async def test_entry_expires_with_its_token() -> None:
    assert (await filled("a", expires_at=time.time() + 60)).get("a")
    assert (await filled("a", expires_at=time.time() - 1)).get("a") is None


async def test_without_the_setting_nothing_is_kept(configure: Any) -> None:
    configure(TOKEN_CACHE_TTL=None)
    cache = PrincipalCache()

    async def load() -> Loaded:
        return Loaded(principal(), None)

    assert isinstance(await cache.find(load, "a"), Principal)
    assert len(cache) == 0


async def test_cache_is_bounded_and_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 2)
    cache = await filled("a", "b", "a", "c")
    assert [bool(cache.get(name)) for name in "abc"] == [True, False, True]
    assert len(cache) == 2


async def test_forgetting_a_digest_leaves_others() -> None:
    cache = await filled("a", "b")
    forget(digest="a")
    assert [bool(cache.get(name)) for name in "ab"] == [False, True]


async def test_forgetting_a_user_leaves_others() -> None:
    cache = await filled("a")
    put(cache, "b", who=principal(8))
    put(cache, "c", who=Principal(scheme="token", subject="x"))
    forget(user="7")
    assert [bool(cache.get(name)) for name in "abc"] == [False, True, True]


async def test_forgetting_everything_empties_all_caches() -> None:
    caches = [await filled("a"), await filled("b")]
    forget()
    assert [len(cache) for cache in caches] == [0, 0]


async def test_what_was_read_before_a_revocation_is_not_kept() -> None:
    cache = PrincipalCache()

    async def load() -> Loaded:
        forget(digest="another")
        return Loaded(principal(), None)

    assert isinstance(await cache.find(load, "a"), Principal)
    assert cache.get("a") is None


@pytest.mark.parametrize("refusal", [None, INVALID_TOKEN])
async def test_refusal_is_returned_and_not_kept(refusal: Challenge | None) -> None:
    cache = PrincipalCache()

    async def refuse() -> Challenge | None:
        return refusal

    assert await cache.find(refuse, "a") is refusal
    assert len(cache) == 0


async def test_principal_without_a_model_is_returned_as_it_is() -> None:
    cache = PrincipalCache()
    user = object()
    put(cache, "a", who=Principal(scheme="jwt", subject="s", user=user))
    found = cache.get("a")
    assert found is not None
    assert found.user is user


@spec("AUTH-RS-27")
async def test_digests_and_principals_are_not_in_its_text() -> None:
    assert "secret" not in repr(await filled("secret"))


def test_change_within_a_value_of_a_user_does_not_reach_the_next_call() -> None:
    group = Group(pk=1, name="staff")
    settings = {"theme": "light", "pages": ["home"]}
    group.__dict__["settings"] = settings

    copied: Any = cache_module._copy_model(group)
    copied.settings["theme"] = "dark"
    copied.settings["pages"].append("cart")

    assert settings == {"theme": "light", "pages": ["home"]}


def test_group_is_a_model_that_is_copied_too() -> None:
    group = Group(pk=1, name="staff")
    copied = cache_module._copy_model(group)
    assert copied == group
    assert copied is not group
