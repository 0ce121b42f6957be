"""The occurrences as a subscriber may see them: rights are checked at each delivery.

A subscription runs as its principal. For each batch, the account and the token are asked again, as
far as an authenticator can (``reauthenticate``). Permission, scopes and selection of the event
follow, and at last its queryset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.db.models import Model
from django.utils import timezone
from pydantic_core import from_json

from django_mcp import (
    AuthenticationRequired,
    Frame,
    InsufficientScope,
    InvalidParams,
    McpError,
    Server,
    registry,
)
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.contrib.events import errors
from django_mcp.contrib.events.declaration import KIND, EventComponent
from django_mcp.contrib.events.errors import Forbidden, NotFound, Unsupported
from django_mcp.contrib.events.models import Occurrence, Subscription
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch.visibility import failures_of_permissions
from django_mcp.core.protocol.errors import ServerBusy, UnknownGroup
from django_mcp.core.protocol.jsonrpc import RequestInfo
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.server import server_of
from django_mcp.extensions import find_component
from django_mcp.runtime import pools
from django_mcp.runtime.context_managers import AroundCall
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.tasks import calls
from django_mcp.tasks.calls import CallerGone
from django_mcp.transports import site
from django_mcp.transports.http import paths
from django_mcp.transports.loop_exchange import LoopExchange

REVOKED = "The access of the subscriber was revoked"

AWAY = (OperationalError, InterfaceError, ProgrammingError, StoreUnavailable, ServerBusy)
"""Errors of a service that is away or busy, or not migrated. Rows stay due, for another attempt."""


DEPLOYMENT = timedelta(hours=1)
"""How long processes of the release before may run, which do not know events of the new one."""


class Terminated(Exception):
    """A subscription has to end; ``error`` is for its receiver."""

    def __init__(self, error: McpError) -> None:
        super().__init__(error.message)
        self.error = error

    def to_json(self) -> dict[str, Any]:
        return errors.to_json(self.error)


async def find_event(frame: Frame, name: str, delivery: str) -> EventComponent:
    """Return an event that the caller may have this way; raises NotFound and Unsupported."""
    component = await find_component(frame, KIND, name)
    if component is None:
        raise NotFound.of(KIND)
    event = cast("EventComponent", component)
    if delivery not in event.delivery:
        raise Unsupported.of("delivery", delivery)
    return event


async def ask_again(frame: Frame, name: str, delivery: str) -> EventComponent:
    """``find_event`` for a subscription that is open; raises Terminated.

    What a permission raises does not end it, because it may pass: it is raised.
    """
    failures: list[Exception] = []
    token = failures_of_permissions.set(failures)
    try:
        return await find_event(frame, name, delivery)
    except (NotFound, Unsupported) as error:
        ended = Terminated(error)
    except (AuthenticationRequired, InsufficientScope, UnknownGroup):
        ended = Terminated(Forbidden(REVOKED))
    finally:
        failures_of_permissions.reset(token)
    for failure in failures:
        if not isinstance(failure, PermissionDenied):
            raise failure
    raise ended


async def with_current_user(frame: Frame) -> Frame:
    """Return the Frame of an open request with the account as it is now; raises Terminated.

    A user remembers permissions as long as its object lives.
    """
    user = frame.user
    if not isinstance(user, Model) or user.pk is None:
        return frame
    rows = user._meta.model._default_manager.filter(pk=user.pk)
    current: Any = await rows.afirst()
    if current is None or not getattr(current, "is_active", True):
        raise Terminated(Forbidden(REVOKED))
    return replace(frame, user=current, auth=replace(frame.principal, user=current))


def describe(
    component: EventComponent, arguments: Any, frame: Frame, occurrences: Sequence[Occurrence]
) -> list[dict[str, Any] | None]:
    """Return each occurrence as the caller of ``frame`` may see it; None: it is hidden.

    It runs queries, within ``around_call`` of the server as a handler does. An occurrence that
    cannot be described is logged, and nobody sees it.
    """
    around = AroundCall(server_of(frame))
    return around.call(frame, _describe, component, arguments, frame, occurrences)


def _describe(
    component: EventComponent, arguments: Any, frame: Frame, occurrences: Sequence[Occurrence]
) -> list[dict[str, Any] | None]:
    event = component.event
    subscription = None
    rows: dict[str, Any] = {}
    if event.model is not None:
        subscription = event.subscription(arguments)
        if event.on != "deleted" and occurrences:
            keys = [occurrence.object_key for occurrence in occurrences]
            rows = event.rows(subscription, frame, keys)
    described = []
    for occurrence in occurrences:
        try:
            data = _data(component, subscription, arguments, frame, occurrence, rows)
        except AWAY:
            raise
        except Exception as error:
            frame.server.report(f"The event {component.name} cannot be described", error)
            data = None
        described.append(None if data is None else _occurrence(occurrence, data))
    return described


def _data(
    component: EventComponent,
    subscription: Any,
    arguments: Any,
    frame: Frame,
    occurrence: Occurrence,
    rows: dict[str, Any],
) -> Any:
    event = component.event
    if event.model is None:
        # Rows of former versions may have NaN, or half of a surrogate pair.
        payload = from_json(occurrence.data, allow_inf_nan=False)
        return event.of_payload(arguments, payload, frame)
    if event.on == "deleted":
        instance = event.restore(occurrence.data, occurrence.event_id)
    else:
        instance = rows.get(occurrence.object_key)
    return None if instance is None else event.of_instance(subscription, instance, frame)


def _occurrence(occurrence: Occurrence, data: dict[str, Any]) -> dict[str, Any]:
    moment = occurrence.created_at
    aware: datetime = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return {
        "eventId": occurrence.event_id,
        "name": occurrence.event,
        "timestamp": aware.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "data": data,
    }


# Webhooks, which have no request.


async def bodies(
    subscription: Subscription, occurrences: Sequence[Occurrence]
) -> list[dict[str, Any] | None]:
    """Return each occurrence as the receiver of a webhook may see it; None: it is passed over.

    Raises Terminated where the subscription has to end.
    """
    frame = await frame_of(subscription)
    component = await ask_again(frame, subscription.event, "webhook")
    try:
        arguments = component.event.read_arguments(subscription.argument_values)
    except InvalidParams as error:
        changed = Unsupported(
            "The arguments of the event have changed",
            data={"feature": "arguments", "reason": "schema_changed"},
        )
        raise _end(subscription, changed) from error
    return await pools.run_hook(describe, component, arguments, frame, occurrences)


async def frame_of(subscription: Subscription) -> Frame:
    """Return a Frame with the caller of a subscription as they are now; raises Terminated."""
    server = _server_of(subscription)
    try:
        facts = subscription.caller_facts()
        stored = await calls.caller_of(subscription.user_key, facts)
    except (CallerGone, ValueError) as error:
        raise Terminated(Forbidden(REVOKED)) from error
    try:
        principal = await reauthenticated(server, stored) or stored
    except AuthenticationFailed as error:
        raise Terminated(Forbidden(REVOKED)) from error
    exchange = LoopExchange(server, principal)
    exchange.may_start_tasks = False
    private: Any = {
        "server": server,
        "revision": server.by_version.get(subscription.version, NEWEST),
        "protocol_version": subscription.version,
        "client_info": {},
        "client_capabilities": {},
        "path_params": paths.from_text(server.path, facts.get("path_params") or {}),
    }
    frame = Frame(
        user=principal.user,
        auth=principal,
        request=RequestInfo(None, "events/subscribe", {}),
        initialized=True,
        cancellation=exchange,
        private=private,
        exchange=exchange,
    )
    process = site.get().process
    return frame if process is None else await process(frame)


def _server_of(subscription: Subscription) -> Server:
    """Return the server of a subscription, which has its event; raises the error of ``_end``."""
    server = registry.find(subscription.server)
    if server is not None:
        registry.make_ready(server)
        key = (KIND, subscription.event)
        if server.components.find(*key) or server.components.is_switched_off(*key):
            return server
    raise _end(subscription, NotFound.of(KIND))


def _end(subscription: Subscription, error: McpError) -> Exception:
    """Return Terminated; or LookupError, since another process may know what this one does not.

    One of them has known it when the client subscribed.
    """
    if timezone.now() - subscription.refreshed_at > DEPLOYMENT:
        return Terminated(error)
    return LookupError(
        f"This process does not know the event {subscription.event!r} of the MCP server "
        f"{subscription.server!r}, or its arguments, to which a client has subscribed in another"
    )


async def reauthenticated(server: Server, principal: Principal) -> Principal | None:
    """Return the principal as it is now, or None where the site cannot ask.

    Raises AuthenticationFailed if access was revoked.
    """
    try:
        authentication = registry.authentication(server)
    except ImproperlyConfigured:
        return None  # A server for stdio alone.
    return await authentication.reauthenticate(principal)
