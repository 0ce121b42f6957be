"""Revocations on all workers: principals that their caches must forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save

from django_mcp import conf
from django_mcp.auth import cache
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import running_loop
from django_mcp.pubsub import bus, channel_layer

GROUP = bus.group("revocations")


class Subscription:
    """Whether an event loop receives the revocations of other workers."""

    exists = False


async def subscribe() -> None:
    """Receive the revocations of other workers from now on, as long as this event loop runs."""
    subscription = loops.here(Subscription)
    if not subscription.exists and channel_layer.shared() is not None:
        subscription.exists = True
        await bus.here().subscribe(GROUP, _receive)


def _receive(message: bus.Message) -> None:
    cache.forget(digest=message.get("digest"), user=message.get("user"))


def publish(*, digest: str | None = None, user: Any = None, using: str | None = None) -> None:
    """Let all workers forget a token, or the tokens of the user with this primary key.

    Without either, they forget all tokens. It takes effect when the transaction is committed, in
    this process at once as well: in a TestCase nothing is committed. It waits for the channel layer
    only where no event loop runs. Without a layer that connects the workers, the others forget
    after ``TOKEN_CACHE_TTL``. So they do, at the latest, where autocommit is off and no ``atomic``
    block is open: Django does not say when such a transaction ends.
    """
    message = {"digest": digest, "user": None if user is None else str(user)}
    cache.forget(**message)
    if running_loop() is not None:
        _publish(message)  # The thread of an event loop has no transaction.
    elif transaction.get_connection(using).in_atomic_block or transaction.get_autocommit(using):
        transaction.on_commit(lambda: _publish(message), using=using, robust=True)
    else:
        _publish(message)  # Django refuses hooks there, which would fail the site's own write.


def loaded_digest(token: Any, field: str) -> str | None:
    """The digest in a field of a token; None if it is deferred: a deleted row is not read again.

    Without a digest, ``publish`` forgets all tokens.
    """
    return None if field in token.get_deferred_fields() else getattr(token, field)


def _publish(message: dict[str, str | None]) -> None:
    cache.forget(**message)
    if channel_layer.shared() is None:
        return
    if running_loop() is not None:
        bus.publish_soon(GROUP, message)
    else:
        async_to_sync(bus.publish)(GROUP, message)


def connect() -> None:
    """Publish every change of a user and of its permissions; in ``AppConfig.ready``.

    Django sends no signal for ``QuerySet.update``, nor for the tables of a site's own backend: such
    a change counts after TOKEN_CACHE_TTL.
    """
    model = settings.AUTH_USER_MODEL
    post_save.connect(_on_user_saved, sender=model, dispatch_uid=UID)
    post_delete.connect(_on_user_deleted, sender=model, dispatch_uid=UID)
    if apps.is_installed("django.contrib.auth"):
        _connect_permissions(get_user_model())
    _connect_toolkit()


UID = "django_mcp.revocations"


def _connect_permissions(user_model: Any) -> None:
    group = apps.get_model("auth.Group")
    permission = apps.get_model("auth.Permission")
    for model in (group, permission):
        post_save.connect(_on_permissions_saved, sender=model, dispatch_uid=UID)
        post_delete.connect(_on_permissions_changed, sender=model, dispatch_uid=UID)
    m2m_changed.connect(_on_permissions_changed, sender=group.permissions.through, dispatch_uid=UID)
    for field in user_model._meta.many_to_many:
        if field.related_model in (group, permission):
            through = field.remote_field.through
            m2m_changed.connect(_on_user_permissions_changed, sender=through, dispatch_uid=UID)


def _on_permissions_saved(*, created: bool, using: str, **_: Any) -> None:
    if not created:  # Nobody has a new one yet.
        publish(using=using)


def _on_permissions_changed(*, using: str, action: str = "post", **_: Any) -> None:
    if action.startswith("post"):
        publish(using=using)


def _on_user_permissions_changed(
    *, instance: Any, action: str, reverse: bool, using: str, **_: Any
) -> None:
    if not action.startswith("post"):
        return
    # From the side of a group, any number of users may have changed.
    publish(user=None if reverse else instance.pk, using=using)


def connect_password(end: Callable[[Any], None]) -> None:
    """Call ``end`` with each user who has a new password, unless the site lets tokens go on.

    It is called in the transaction of the change. Django sends no signal for ``QuerySet.update``.
    """

    def on_user_saved(*, instance: Any, created: bool, update_fields: Any = None, **_: Any) -> None:
        is_written = update_fields is None or "password" in update_fields
        # Django keeps a new password here until it has told the validators. It does not where a
        # login only stores the same password with a newer hasher, which must end nothing.
        is_new = getattr(instance, "_password", None) is not None
        if is_new and is_written and not created and conf.get().tokens_end_with_password:
            end(instance)

    post_save.connect(
        on_user_saved,
        sender=settings.AUTH_USER_MODEL,
        weak=False,
        dispatch_uid=f"{UID}.{end.__module__}",
    )


def _on_user_saved(
    *, instance: Any, created: bool, update_fields: Any = None, using: str, **_: Any
) -> None:
    is_login = update_fields is not None and set(update_fields) == {"last_login"}
    if not created and not is_login:
        publish(user=instance.pk, using=using)


def _on_user_deleted(*, instance: Any, using: str, **_: Any) -> None:
    publish(user=instance.pk, using=using)


def _connect_toolkit() -> None:
    """Publish every change of an access token of django-oauth-toolkit, which may be installed."""
    # A site may have put a model of its own in the place of the toolkit's.
    path = getattr(settings, "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL", "oauth2_provider.AccessToken")
    if path.partition(".")[0] in apps.app_configs:
        model = apps.get_model(path)
        post_save.connect(_on_token_changed, sender=model, dispatch_uid=UID)
        post_delete.connect(_on_token_changed, sender=model, dispatch_uid=UID)


def _on_token_changed(*, instance: Any, using: str, created: bool = False, **_: Any) -> None:
    if not created:
        publish(digest=loaded_digest(instance, "token_checksum"), using=using)
