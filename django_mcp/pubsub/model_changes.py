"""Changes of models as notifications of the resources that show their objects.

Signals of a model are received only once a resource names it. Notifications are published after
the commit, once for each resource and transaction. Their errors are logged, and never reach the
write of the site.

| change | signal | read at that moment |
|---|---|---|
| saved | ``post_save`` | fields of the URI that the object does not have |
| deleted | ``pre_delete``: later, they could not be read | the same |
| many-to-many field of an object | ``m2m_changed``, after the change | the same |
| the same from the other side | the same, ``pre_clear`` for all | the objects with the field |

Django sends ``pre_delete`` and ``pre_clear`` in the transaction that deletes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import connections, models, transaction
from django.db.models.signals import m2m_changed, post_save, pre_delete

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.resource import ReadComponent, ResourceComponent, TemplateComponent
from django_mcp.core.log import log_repeated
from django_mcp.core.server.components import MODEL_OBSERVER, PendingObserver
from django_mcp.core.server.server import Server

Model = type[models.Model]

KINDS = (ResourceComponent.kind, TemplateComponent.kind)


class SignalObserver:
    """Receives the signals of the models that components name."""

    def __init__(self) -> None:
        self._models: dict[Model, WeakKeyDictionary[Server, set[Model]]] = {}
        """The models of the components of each server, by the sender of signals."""

    def observe(self, server: Server, component: ReadComponent, /) -> None:
        model = component.model
        if not (isinstance(model, type) and issubclass(model, models.Model)):
            raise ConfigurationError(
                f"The model of {component.source} is {model!r}: give a class of Django's models"
            )
        if isinstance(component, TemplateComponent):
            check_variables(component)
        for sender in family(model):
            if sender not in self._models:
                post_save.connect(self._saved, sender=sender)
                pre_delete.connect(self._deleted, sender=sender)
                for field in sender._meta.many_to_many:
                    m2m_changed.connect(self._related, sender=field.remote_field.through)
            servers = self._models.setdefault(sender, WeakKeyDictionary())
            servers.setdefault(server, set()).add(model)

    def _saved(self, sender: Model, instance: Any, created: bool, using: str, **_: Any) -> None:
        self._changed(sender, instance, using, is_list_changed=created)

    def _deleted(self, sender: Model, instance: Any, using: str, **_: Any) -> None:
        self._changed(sender, instance, using, is_list_changed=True)

    def _related(
        self,
        sender: Model,
        instance: Any,
        action: str,
        reverse: bool,
        model: Model,
        pk_set: Collection[Any] | None,
        using: str | None,
        **_: Any,
    ) -> None:
        alias = using or "default"
        if not reverse and action.startswith("post_") and type(instance) in self._models:
            self._changed(type(instance), instance, alias, is_list_changed=False)
        if action in ("post_add", "post_remove", "pre_clear"):
            with logged_errors():
                self._related_from_other_side(sender, instance, model, pk_set, alias, reverse)

    def _related_from_other_side(
        self,
        through: Model,
        instance: Any,
        model: Model,
        keys: Collection[Any] | None,
        using: str,
        reverse: bool,
    ) -> None:
        """Announce the objects with the field; without ``keys``, all that have ``instance`` in it.

        An object with a symmetrical field to its own model is on both sides.
        """
        # Proxies have the rows of their concrete model, whose signals all of them receive.
        senders = [sender for sender in self._models if issubclass(sender, model)]
        for owner in {sender for sender in senders if not sender._meta.proxy}:
            for field in owner._meta.many_to_many:
                is_of_owner = reverse or field.remote_field.symmetrical
                if field.remote_field.through is not through or not is_of_owner:
                    continue
                lookup = {field.name: instance} if keys is None else {"pk__in": keys}
                for changed in owner._base_manager.using(using).filter(**lookup):
                    self._changed(owner, changed, using, is_list_changed=False)

    def _changed(self, sender: Model, instance: Any, using: str, *, is_list_changed: bool) -> None:
        for server, models_of_components in self._models[sender].items():
            for component in components_of(server, models_of_components):
                with logged_errors():
                    after_commit(server, uri_of(component, instance), using)
                if is_list_changed and isinstance(component, TemplateComponent):
                    with logged_errors():
                        after_commit(server, None, using)


@contextmanager
def logged_errors() -> Iterator[None]:
    """Log an error: the site's own write goes on without the notification."""
    try:
        yield
    except Exception:
        log_repeated(logging.ERROR, "A change of a model cannot be announced", exc_info=True)


def components_of(server: Server, models: set[Model]) -> Iterator[ReadComponent]:
    for kind in KINDS:
        for component in server.components.of_kind(kind):
            if isinstance(component, ReadComponent) and component.model in models:
                yield component


def family(model: Model) -> set[Model]:
    """Return the senders of signals for rows of ``model``: itself, its proxies and its children."""
    concrete = model._meta.concrete_model
    senders = {model}
    for other in apps.get_models(include_auto_created=True):
        if issubclass(other, model) or other._meta.concrete_model is concrete:
            senders.add(other)
    return senders


def check_variables(component: TemplateComponent) -> None:
    """Raise ConfigurationError unless every variable is a field of the model."""
    for name in component.template.names:
        try:
            attribute_of(component.model, name)
        except FieldDoesNotExist:
            raise ConfigurationError(
                f"{component.key} names {name!r}, which is no field of "
                f"{component.model._meta.label}: the URI of an object consists of its fields"
            ) from None


def attribute_of(model: Model, name: str) -> str:
    """Return the attribute of objects for a variable; for a relation, the attribute of the key."""
    if name == "pk":
        return name
    # A reverse relation has no attribute with a value of its own.
    attribute = getattr(model._meta.get_field(name), "attname", None)
    if attribute is None:
        raise FieldDoesNotExist(name)
    return str(attribute)


def uri_of(component: ReadComponent, instance: Any) -> str:
    """Return the URI of the resource that shows an object.

    It reads deferred fields from the database, so that the row must exist.
    """
    if not isinstance(component, TemplateComponent):
        return component.key
    names = component.template.names
    values = {name: getattr(instance, attribute_of(component.model, name)) for name in names}
    return component.template.expand(
        {name: None if value is None else str(value) for name, value in values.items()}
    )


# Transactions.


class Transaction:
    """The changes that one transaction has published. It is over once one of its hooks has run."""

    def __init__(self) -> None:
        self.published: set[tuple[Server, str | None]] = set()
        self.is_over = False


_transactions: WeakKeyDictionary[Any, Transaction] = WeakKeyDictionary()
"""The transaction of each connection; after a rollback, the next one continues to use it."""


def after_commit(server: Server, uri: str | None, using: str) -> None:
    """Publish a change of a resource, or of the list of resources, once after the commit."""
    connection = connections[using]
    current = _transactions.get(connection)
    if current is None or current.is_over:
        current = Transaction()
        _transactions[connection] = current

    def publish_change() -> None:
        current.is_over = True
        if (server, uri) not in current.published:
            current.published.add((server, uri))
            uris = [] if uri is None else [uri]
            server.notifications.resources_changed(uris, is_list_changed=uri is None)

    # A hook for each change, since a savepoint may be rolled back with its hooks.
    transaction.on_commit(publish_change, using=using, robust=True)


def observe_models() -> None:
    """Observe the models of all components, also of those that are registered already."""
    former = MODEL_OBSERVER.get()
    observer = SignalObserver()
    MODEL_OBSERVER.fill(observer)
    if isinstance(former, PendingObserver):
        for server, component in former.pending:
            observer.observe(server, component)
