"""Revocations on all workers: what their caches of authenticated principals must forget."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from weakref import WeakSet

from asgiref.sync import async_to_sync
from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from django_mcp.auth import cache
from django_mcp.pubsub import bus, channel_layer

GROUP = bus.group("revocations")

_subscribed: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


async def subscribe() -> None:
    """Receive the revocations of other workers from now on, as long as this event loop runs."""
    loop = asyncio.get_running_loop()
    if loop not in _subscribed and channel_layer.shared() is not None:
        _subscribed.add(loop)
        await bus.here().subscribe(GROUP, _receive)


def _receive(message: bus.Message) -> None:
    cache.forget(digest=message.get("digest"), user=message.get("user"))


def publish(*, digest: str | None = None, user: Any = None, using: str | None = None) -> None:
    """Let all workers forget a token, or the tokens of the user with this primary key.

    It takes effect when the transaction is committed, in this process at once as well: in a
    TestCase nothing is committed. It waits for the channel layer only where no event loop runs.
    Without a layer that connects the workers, the others forget after ``TOKEN_CACHE_TTL``.
    """
    message = {"digest": digest, "user": None if user is None else str(user)}
    cache.forget(**message)
    if bus.running_loop() is None:
        transaction.on_commit(lambda: _publish(message), using=using)
    else:
        _publish(message)  # The thread of an event loop has no transaction.


def _publish(message: dict[str, str | None]) -> None:
    cache.forget(**message)
    if channel_layer.shared() is None:
        return
    if bus.running_loop() is not None:
        bus.publish_soon(GROUP, message)
    else:
        async_to_sync(bus.publish)(GROUP, message)


def connect_user() -> None:
    """Publish every change of a user; for apps with tokens, in ``AppConfig.ready``.

    Django sends no signal for ``QuerySet.update``: such a change counts after TOKEN_CACHE_TTL.
    """
    model = settings.AUTH_USER_MODEL
    post_save.connect(_on_user_saved, sender=model, dispatch_uid="django_mcp.revocations")
    post_delete.connect(_on_user_deleted, sender=model, dispatch_uid="django_mcp.revocations")


def _on_user_saved(
    *, instance: Any, created: bool, update_fields: Any = None, using: str, **_: Any
) -> None:
    is_login = update_fields is not None and set(update_fields) == {"last_login"}
    if not created and not is_login:
        publish(user=instance.pk, using=using)


def _on_user_deleted(*, instance: Any, using: str, **_: Any) -> None:
    publish(user=instance.pk, using=using)


def connect_toolkit() -> None:
    """Publish every change of an access token of django-oauth-toolkit, which may be installed."""
    # A site may have put a model of its own in the place of the toolkit's.
    named = getattr(settings, "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL", "oauth2_provider.AccessToken")
    if named.partition(".")[0] in apps.app_configs:
        model = apps.get_model(named)
        post_save.connect(_on_token_changed, sender=model, dispatch_uid="django_mcp.revocations")
        post_delete.connect(_on_token_changed, sender=model, dispatch_uid="django_mcp.revocations")
        connect_user()


def _on_token_changed(*, instance: Any, using: str, created: bool = False, **_: Any) -> None:
    if not created:
        publish(digest=instance.token_checksum, using=using)


os.register_at_fork(after_in_child=_subscribed.clear)  # The loops exist only in the parent.
