"""subscriptions/listen, resources/subscribe and resources/unsubscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from django_mcp.core.dispatch import visibility
from django_mcp.core.dispatch.invocation import string_param
from django_mcp.core.frame.session import Change
from django_mcp.core.protocol import initialize, subscriptions
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    InvalidParams,
    Json,
    MethodNotFound,
    ResourceNotFound,
)
from django_mcp.core.protocol.limits import MAX_URI
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame

MAX_SUBSCRIPTIONS = 1000
"""Resources of one session, or strings of the filter of one listen stream: each is compared with
every notification."""


async def listen(frame: Frame) -> Answer:
    """Send the notifications which the client listens for, until its stream ends."""
    check_stream(frame)
    wanted = subscriptions.read(frame.message.params, INSTALLED.filters, INSTALLED.lists)
    of_extensions = chain.from_iterable(wanted.of_extensions.values())
    _check_count(frame, (*wanted.uris, *of_extensions))
    accepted = await resolve_filter(frame, wanted)
    await frame.exchange.listen(frame, accepted)
    return {"_meta": subscriptions.meta(frame.request_id)}, frame


def check_stream(frame: Frame) -> None:
    """Raise McpError if this client may not open a stream."""
    if not frame.exchange.may_listen:
        raise MethodNotFound("This server has no streams to listen on")
    # The stream keeps the client's description while it is open, so that its size is checked.
    info = frame.get_client_info()
    capabilities = frame.get_client_capabilities()
    initialize.check_client({"clientInfo": info, "clientCapabilities": capabilities})


async def resolve_filter(frame: Frame, wanted: Filter) -> Filter:
    """Return the part of a filter which the server supports and the caller may read.

    Raises AuthenticationRequired or InsufficientScope if a resource in it is challenged.
    """
    capabilities = frame.server.capabilities.described(frame.revision)
    lists = [name for name in wanted.lists if _announces(frame, capabilities, name)]
    uris = wanted.uris if _declares(capabilities, "resources", "subscribe") else ()
    access_by_uri = {}
    for uri in uris:
        access_by_uri[uri] = await visibility.access_to(frame, uri)
        await asyncio.sleep(0)  # There may be many, and each is compared with all templates.
    challenges = [access.challenge for access in access_by_uri.values() if access.challenge]
    if challenges:
        raise AuthenticationRequired.for_all(challenges)
    readable = [uri for uri, access in access_by_uri.items() if access.is_permitted]
    of_extensions = await _accepted(frame, wanted.of_extensions)
    return Filter(frozenset(lists), tuple(readable), of_extensions, wanted.categories)


def _announces(frame: Frame, capabilities: Json, name: str) -> bool:
    """Whether clients are sent the changes of the list that a member of a filter names."""
    if name in subscriptions.LISTS:
        return _declares(capabilities, subscriptions.LISTS[name], "listChanged")
    owners = (one for one, kind in INSTALLED.kinds.values() if kind.list_filter == name)
    settings = [one.settings_for(frame.server, frame.revision) for one in owners]
    return any(bool((each or {}).get("listChanged")) for each in settings)


async def _accepted(
    frame: Frame, wanted: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the members that the declared extensions accept."""
    accepted: dict[str, tuple[str, ...]] = {}
    for name, values in wanted.items():
        extension, listen_filter = INSTALLED.filters[name]
        if not extension.is_available(frame.server, frame.revision):
            continue
        if own := tuple(await listen_filter.accept(frame, values)):
            accepted[name] = own
    return accepted


async def subscribe(frame: Frame) -> Answer:
    """Subscribe the session to a resource; raises ResourceNotFound for an unknown one.

    Raises AuthenticationRequired or InsufficientScope for one that is challenged.
    """
    uri = _uri(frame)
    access = await visibility.access_to(frame, uri)
    if not access.is_permitted:
        raise access.challenge or ResourceNotFound.at(uri)
    present = frame.private.get("subscriptions", frozenset())
    _check_count(frame, present | {uri})
    return {}, frame.record(Change("subscriptions", "include", uri))


async def unsubscribe(frame: Frame) -> Answer:
    """Unsubscribe the session from a resource, whether it was subscribed or not."""
    return {}, frame.record(Change("subscriptions", "exclude", _uri(frame)))


def _uri(frame: Frame) -> str:
    """Return the URI of the request; raises MethodNotFound where nothing can be subscribed to."""
    capabilities = frame.server.capabilities.described(frame.revision)
    if not frame.exchange.may_listen or not _declares(capabilities, "resources", "subscribe"):
        raise MethodNotFound("This server offers no subscriptions to resources")
    return string_param(frame.message.params, "uri", MAX_URI)


def _check_count(frame: Frame, uris: Collection[str]) -> None:
    if len(uris) > MAX_SUBSCRIPTIONS:
        raise InvalidParams(
            f"A client may subscribe to at most {MAX_SUBSCRIPTIONS} resources, or other things"
        )


def _declares(capabilities: Json, category: str, flag: str) -> bool:
    return bool(capabilities.get(category, {}).get(flag))
