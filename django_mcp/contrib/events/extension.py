"""Events as an extension: ``io.modelcontextprotocol/events``, a draft (SEP-3415)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import router
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mcp import Server, conf
from django_mcp.contrib.events import delivery, errors, interest, occurrences
from django_mcp.contrib.events.declaration import KIND, EventComponent
from django_mcp.contrib.events.methods import polling, streaming, subscribing
from django_mcp.contrib.events.models import (
    Delivery,
    DeliveryStatus,
    Status,
    Subscription,
)
from django_mcp.core.protocol.revisions import BY_VERSION, Revision, Statefulness
from django_mcp.extensions import Extension, Kind, Method
from django_mcp.models import delete_in_steps
from django_mcp.tasks import database_clock
from django_mcp.tasks.database_clock import Now

IDENTIFIER = "io.modelcontextprotocol/events"
CAPABILITY = "events"
"""Where ChatGPT looks, beside the extensions."""
VERSIONS = tuple(
    version
    for version, revision in BY_VERSION.items()
    if revision.statefulness is Statefulness.STATELESS
)
ENDED_RETENTION = timedelta(days=7)
"""How long a subscription that has ended is shown in the admin."""


def settings(server: Server, revision: Revision) -> dict[str, Any] | None:
    """Declare events where the server has, or had, a type of them."""
    if revision.statefulness is not Statefulness.STATELESS or not server.components.had(KIND):
        return None
    return {"listChanged": True}


def facts(server: Server) -> Iterator[tuple[Any, Any]]:
    """Count the subscriptions of a server, for its page in the workbench."""
    if any(isinstance(each, EventComponent) for each in server.components.registered()):
        live = Subscription.objects.current().live().filter(server=server.name)
        yield _("Event subscriptions"), str(live.count())


def prune() -> str:
    """Delete expired occurrences, subscriptions, deliveries and interests."""
    count = occurrences.prune()
    alias = router.db_for_write(Subscription)
    over = Q(expires_at__lte=Now()) | Q(
        status=Status.ENDED, refreshed_at__lt=database_clock.after(-ENDED_RETENTION)
    )
    subscriptions = delete_in_steps(Subscription.objects.current().filter(over))
    too_old = database_clock.after(-timedelta(seconds=conf.get().events_retention))
    done = Delivery._default_manager.using(alias).filter(created_at__lt=too_old)
    delete_in_steps(done.exclude(status=DeliveryStatus.PENDING))
    interest.without_interest().delete()
    return f"Deleted {count} events and {subscriptions} subscriptions to events."


EVENTS = Extension(
    name=IDENTIFIER,
    settings=settings,
    capability=CAPABILITY,
    errors=errors.codes,
    kinds=[Kind(name=KIND, category="events", list_filter="eventsListChanged")],
    notifications=streaming.NOTIFICATIONS,
    methods=[
        Method(
            name="events/list",
            params=polling.ListParams,
            call=polling.list_events,
            revisions=VERSIONS,
        ),
        Method(
            name="events/poll", params=polling.PollParams, call=polling.poll, revisions=VERSIONS
        ),
        Method(
            name="events/stream",
            params=polling.StreamParams,
            call=streaming.stream,
            revisions=VERSIONS,
            streams=True,
        ),
        Method(
            name="events/subscribe",
            params=subscribing.SubscribeParams,
            call=subscribing.subscribe,
            revisions=VERSIONS,
        ),
        Method(
            name="events/unsubscribe",
            params=subscribing.UnsubscribeParams,
            call=subscribing.unsubscribe,
            revisions=VERSIONS,
        ),
    ],
    facts=facts,
    start=delivery.start,
    stop=delivery.stop,
    jobs={delivery.JOB: delivery.run},
    prune=prune,
)
