"""A short-lived cache of authenticated principals, for authenticators which look up tokens.

It is in the memory of the process. ``forget`` removes entries here; ``pubsub.revocations`` calls it
on every worker when a token is revoked, or its user changes.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, TypeVar
from weakref import WeakSet

from django.db.models import Model
from django.db.models.base import ModelState

from django_mcp import conf
from django_mcp.auth.base import Principal

MAX_ENTRIES = 1000
"""In one cache; the oldest makes room for another one."""
WAIT_TIMEOUT = 1.0
"""Seconds for which a request waits for another one that looks up the same token."""

M = TypeVar("M", bound=Model)


class _Entry(NamedTuple):
    principal: Principal
    token: str
    until: float


class LookUp(NamedTuple):
    """The look-up of a token that was not in the cache."""

    found: Principal | None
    """What another request has put there meanwhile."""
    keep: Callable[[Principal, float | None], None]
    """Keeps a principal, at most until a time in seconds since the epoch."""


class PrincipalCache:
    """The principals of one authenticator, each for at most ``TOKEN_CACHE_TTL`` seconds.

    A key is the digest of a token, never the token, and whatever else the decision depends on,
    such as the name of the server. An authenticator uses it so::

        found = cache.get(digest, server)
        if found is not None:
            return found
        async with cache.look_up(digest, server) as look_up:
            if look_up.found is not None:
                return look_up.found
            ...  # Read the token and its user from the database.
            look_up.keep(principal, expires_at)
    """

    subscribe: ClassVar[Callable[[], Awaitable[None]] | None] = None
    """Lets ``forget`` be called here for what happens on other workers; set by the app."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = threading.Lock()
        self._mark = 0
        self._looked_up: dict[Hashable, asyncio.Future[None]] = {}
        _caches.add(self)

    def get(self, digest: str, *more: Hashable) -> Principal | None:
        """Return the principal with a copy of its user and its claims, or None.

        What a handler changes or loads on the user is not there in the next call: neither its
        permissions nor its related objects are ever cached.
        """
        entry = self._entries.get((digest, *more))
        if entry is None or entry.until <= time.monotonic():
            return None
        return _copy(entry.principal)

    @asynccontextmanager
    async def look_up(self, digest: str, *more: Hashable) -> AsyncIterator[LookUp]:
        """Look up a token that ``get`` has not found; enter this before reading anything.

        Of the requests with one token, one reads while the others wait for it. Otherwise all calls
        of a busy client would read at once, whenever its entry has expired.
        """
        loop = asyncio.get_running_loop()
        key, found = (loop, digest, *more), None
        other = None if _ttl() is None else self._looked_up.get(key)
        if other is not None:
            await asyncio.wait([other], timeout=WAIT_TIMEOUT)
            found = self.get(digest, *more)
        own = self._looked_up[key] = loop.create_future()
        try:
            mark = await self.watch() if found is None else self._mark
            yield LookUp(found, lambda who, until: self.put(digest, who, until, *more, mark=mark))
        finally:
            if self._looked_up.get(key) is own:
                del self._looked_up[key]
            own.set_result(None)

    async def watch(self) -> int:
        """Return a mark for ``put``; call it before reading what the principal is made of."""
        if (subscribe := type(self).subscribe) is not None and _ttl() is not None:
            await subscribe()
        return self._mark

    def put(
        self,
        digest: str,
        principal: Principal,
        expires_at: float | None,
        *more: Hashable,
        mark: int,
    ) -> None:
        """Keep the principal, at most until ``expires_at`` (seconds since the epoch).

        It is not kept if anything was forgotten since ``mark``: what was read may be outdated.
        """
        if (lifetime := _ttl()) is None:
            return
        if expires_at is not None:
            lifetime = min(lifetime, expires_at - time.time())
        entry = _Entry(_copy(principal), digest, time.monotonic() + lifetime)
        with self._lock:
            if mark == self._mark:
                self._entries.pop((digest, *more), None)
                self._entries[digest, *more] = entry
                if len(self._entries) > MAX_ENTRIES:
                    del self._entries[next(iter(self._entries))]

    def forget(self, *, digest: str | None = None, user: str | None = None) -> None:
        """Forget one token, or all tokens of the user with this primary key; else everything."""
        with self._lock:
            self._mark += 1
            if digest is None and user is None:
                self._entries.clear()
                return
            for key, entry in list(self._entries.items()):
                if entry.token == digest or _key_of(entry.principal.user) == user is not None:
                    del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)


def forget(*, digest: str | None = None, user: str | None = None) -> None:
    """``forget`` of every cache in this process."""
    for cache in list(_caches):
        cache.forget(digest=digest, user=user)


def _ttl() -> float | None:
    return conf.get().token_cache_ttl


def _key_of(user: Any) -> str | None:
    key = getattr(user, "pk", None)
    return None if key is None else str(key)


def _copy(principal: Principal) -> Principal:
    user = principal.user
    if isinstance(user, Model):
        user = _copy_model(user)
    # ``Principal(…)`` takes twice as long.
    copied = _new(Principal)
    _set_scheme(copied, principal.scheme)
    _set_subject(copied, principal.subject)
    _set_user(copied, user)
    _set_scopes(copied, principal.scopes)
    _set_claims(copied, {**principal.claims})
    _set_endpoint(copied, principal.endpoint)
    return copied


def _copy_model(instance: M) -> M:
    """Return a copy with the same fields, and without related objects."""
    model = instance.__class__
    copied = _new(model)
    state = ModelState()
    state.db, state.adding = instance._state.db, False
    copied.__dict__ = {**instance.__dict__, "_state": state}
    return copied


def _reset() -> None:
    """Start with empty caches in a forked child, whose parent may have held a lock."""
    for cache in _caches:
        cache._lock = threading.Lock()
        cache._entries.clear()
        cache._looked_up.clear()


_new = object.__new__
_set_scheme, _set_subject, _set_user, _set_scopes, _set_claims, _set_endpoint = (
    vars(Principal)[field.name].__set__ for field in fields(Principal)
)
_caches: WeakSet[PrincipalCache] = WeakSet()

os.register_at_fork(after_in_child=_reset)
