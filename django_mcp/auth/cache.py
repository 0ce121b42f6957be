"""Look-ups of authenticators: their time limit, and a short-lived cache of their principals.

The cache is in the memory of the process. The principal of a token is in one of these states:

| state  | begins with                                | ends with                              |
|--------|--------------------------------------------|----------------------------------------|
| absent | the start, the end of being kept           | a load                                 |
| kept   | a load during which nothing was forgotten  | TOKEN_CACHE_TTL, the expiry of the     |
|        |                                            | token, ``forget``, too many others     |

``pubsub.revocations`` calls ``forget`` on every worker when a token is revoked, or when its user or
the permissions of its user change.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import NamedTuple, TypeVar
from weakref import WeakSet

from django.db.models import Model
from django.db.models.base import ModelState

from django_mcp import conf
from django_mcp.core.auth import permissions
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.core.ports import Port

MAX_ENTRIES = 1000
"""In one cache; the oldest makes room for another one."""

M = TypeVar("M", bound=Model)
T = TypeVar("T")


async def in_time(query: Awaitable[T]) -> T:
    """Return the result of a query; raises TimeoutError after STORE_TIMEOUT.

    The request is then answered with 503, as one that waits for a store.
    """
    async with asyncio.timeout(conf.get().store_timeout):
        return await query


class Loaded(NamedTuple):
    """The principal of a valid token, and its expiry."""

    principal: Principal
    expires_at: float | None
    """In seconds since the epoch."""


class _Entry(NamedTuple):
    principal: Principal
    token: str
    until: float


async def _subscribe_to_nothing() -> None:
    pass


SUBSCRIBE: Port[Callable[[], Awaitable[None]]] = Port(
    "receives revocations", default=_subscribe_to_nothing
)
"""Lets ``forget`` be called here for what happens on other workers."""


class PrincipalCache:
    """The principals of one authenticator, each for at most ``TOKEN_CACHE_TTL`` seconds.

    A key consists of the digest of a token (never the token), the tenant of the request, and
    further values that the decision depends on, such as the name of the server. An authenticator
    uses it so::

        async def authenticate(self, scope):
            ...
            return await self._cache.find(partial(self._load, digest), digest, server)

        async def _load(self, digest):
            ...  # Read the token and its user from the database.
            return Loaded(principal, expires_at)  # A Challenge, or None, for no valid token.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = threading.Lock()
        self._forgotten = 0
        """How often something was forgotten."""
        _caches.add(self)

    async def find(
        self,
        load: Callable[[], Awaitable[Loaded | Challenge | None]],
        digest: str,
        *more: Hashable,
    ) -> Principal | Challenge | None:
        """Return the principal of a token, or what ``load`` returns for one without a principal."""
        principal = self.get(digest, *more)
        if principal is not None:
            return principal
        # Before the load: a revocation during it has to arrive here.
        if conf.get().token_cache_ttl is not None:
            await SUBSCRIBE.get()()
        forgotten = self._forgotten
        loaded = await load()
        if not isinstance(loaded, Loaded):
            return loaded
        self.put(loaded, digest, *more, forgotten=forgotten)
        return loaded.principal

    def get(self, digest: str, *more: Hashable) -> Principal | None:
        """Return the principal with a copy of its user and its claims, or None.

        A handler's changes of the user do not reach the next call, and related objects are
        not cached. The answers of ``has_perm`` are shared: see ``core.auth.permissions``.
        """
        entry = self._entries.get((digest, _tenant.get(), *more))
        if entry is None or entry.until <= time.monotonic():
            return None
        return _copy(entry.principal)

    def put(self, loaded: Loaded, digest: str, *more: Hashable, forgotten: int) -> None:
        """Keep the principal, at most until it expires.

        ``forgotten`` is the counter before the load. If it has changed, the principal is not kept:
        it may be outdated.
        """
        principal = loaded.principal
        lifetime = conf.get().token_cache_ttl or 0.0
        if loaded.expires_at is not None:
            lifetime = min(lifetime, loaded.expires_at - time.time())
        until = time.monotonic() + lifetime
        with self._lock:
            if lifetime <= 0 or forgotten != self._forgotten:
                return
            if isinstance(principal.user, Model):
                permissions.remember(principal.user, until)
            key = (digest, _tenant.get(), *more)
            self._entries.pop(key, None)
            self._entries[key] = _Entry(_copy(principal), digest, until)
            if len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]

    def forget(self, *, digest: str | None = None, user: str | None = None) -> None:
        """Forget one token, or all tokens of the user with this primary key; else everything."""
        is_everything = digest is None and user is None
        with self._lock:
            self._forgotten += 1
            for key, entry in list(self._entries.items()):
                key_of_user = getattr(entry.principal.user, "pk", None)
                is_of_user = key_of_user is not None and str(key_of_user) == user
                if is_everything or entry.token == digest or is_of_user:
                    del self._entries[key]
                    permissions.forget(entry.principal.user)

    def __len__(self) -> int:
        return len(self._entries)


@contextmanager
def of_tenant(tenant: str) -> Iterator[None]:
    """Find and keep only principals of this tenant: another one's database has other users."""
    token = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(token)


def forget(*, digest: str | None = None, user: str | None = None) -> None:
    """``forget`` of every cache in this process."""
    for cache in list(_caches):
        cache.forget(digest=digest, user=user)


def _copy(principal: Principal) -> Principal:
    user = principal.user
    if isinstance(user, Model):
        user = _copy_model(user)
    # Not ``replace``, which takes 2 µs more of each call. The further fields of a subclass, such as
    # a token, belong to one request.
    return Principal(
        scheme=principal.scheme,
        subject=principal.subject,
        user=user,
        scopes=principal.scopes,
        claims={**principal.claims},
        endpoint=principal.endpoint,
        tenant=principal.tenant,
        selection=principal.selection,
    )


def _copy_model(instance: M) -> M:
    """Return a copy with the same fields, and without related objects."""
    model = instance.__class__
    copied = model.__new__(model)
    state = ModelState()
    state.db = instance._state.db
    state.adding = False
    values = {
        name: deepcopy(value) if type(value) in (dict, list) else value
        for name, value in instance.__dict__.items()
    }
    copied.__dict__ = {**values, "_state": state}
    return copied


def _reset() -> None:
    """Start with empty caches in a forked child: its parent may have held a lock."""
    for cache in _caches:
        cache._lock = threading.Lock()
        cache._entries.clear()


_tenant: ContextVar[str] = ContextVar("django_mcp.tenant_of_cache", default="")
_caches: WeakSet[PrincipalCache] = WeakSet()

os.register_at_fork(after_in_child=_reset)
