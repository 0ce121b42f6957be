"""What a client wants to hear of on a stream of its own, in the revisions which have such streams.

The id of the request that opened the stream names it in everything that is sent there, with the
JSON type it came with: ``1`` and ``"1"`` are two subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import InvalidParams, Json
from django_mcp.protocol.jsonrpc import RequestId

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"

LISTS: Mapping[str, str] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""The capability whose list each member of a filter is about."""

_PLACE = "\N{OBJECT REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Filter:
    """The lists, by the filter's own names for them, and the resources of which to hear."""

    lists: frozenset[str] = frozenset()
    uris: tuple[str, ...] = ()

    def to_protocol(self) -> dict[str, Any]:
        """The filter as it travels: what is not in it is left out."""
        told: dict[str, Any] = {name: True for name in LISTS if name in self.lists}
        return {**told, "resourceSubscriptions": [*self.uris]} if self.uris else told

    @property
    def methods(self) -> frozenset[str]:
        """The announcements of lists which pass."""
        return frozenset(f"notifications/{LISTS[name]}/list_changed" for name in self.lists)


def read(params: Json) -> Filter:
    """The filter of a request; raises InvalidParams. Kinds that are not known here are left out."""
    wanted = params.get("notifications")
    if type(wanted) is not dict:
        raise InvalidParams("params.notifications must be an object: the filter of what to hear")
    uris = wanted.get("resourceSubscriptions", [])
    if type(uris) is not list or not all(type(uri) is str for uri in uris):
        raise InvalidParams("params.notifications.resourceSubscriptions must be a list of strings")
    return Filter(frozenset(_wanted_lists(wanted)), tuple(dict.fromkeys(uris)))


def _wanted_lists(wanted: Json) -> Iterable[str]:
    for name in LISTS:
        if type(wanted.get(name, False)) is not bool:
            raise InvalidParams(f"params.notifications.{name} must be true or false")
        if wanted.get(name):
            yield name


def meta(identity: RequestId) -> dict[str, Any]:
    """The metadata of everything that belongs to a subscription."""
    return {SUBSCRIPTION_ID: identity}


def acknowledgement(identity: RequestId, honoured: Filter) -> dict[str, Any]:
    """The first message of a subscription: what of the filter will be honoured."""
    params = {"_meta": meta(identity), "notifications": honoured.to_protocol()}
    return jsonrpc.notification(ACKNOWLEDGED, params)


def encoded_id(identity: RequestId) -> bytes:
    """The id as it stands in a message, for ``announcement``."""
    return jsonrpc.encode(identity)


def announcement(method: str, uri: str | None, identity: bytes) -> bytes:
    """An announcement to one subscription. Its text is made once, however many there are."""
    head, tail = _around(method, uri)
    return head + identity + tail


@lru_cache(maxsize=256)
def _around(method: str, uri: str | None) -> tuple[bytes, bytes]:
    """What stands before and after the id of the subscription."""
    params: dict[str, Any] = {"_meta": {SUBSCRIPTION_ID: _PLACE}}
    if uri is not None:
        params["uri"] = uri
    text = jsonrpc.encode(jsonrpc.notification(method, params))
    head, _, tail = text.partition(jsonrpc.encode(_PLACE))
    return head, tail
