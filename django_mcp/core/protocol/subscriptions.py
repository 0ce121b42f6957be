"""The filters and messages of subscriptions/listen streams.

Each message has the id of the request that opened the stream: ``1`` and ``"1"`` are different.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidParams, Json
from django_mcp.core.protocol.jsonrpc import RequestId
from django_mcp.core.protocol.limits import MAX_URI, too_long

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
UPDATED = "notifications/resources/updated"

LISTS: Mapping[str, str] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""The capability of the list that each member of a filter selects."""

_PLACEHOLDER = "\N{OBJECT REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Filter:
    """The lists, by their names in a filter, and the resources of a subscription."""

    lists: frozenset[str] = frozenset()
    uris: tuple[str, ...] = ()
    of_extensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The members that extensions have added, by name."""
    categories: Mapping[str, str] = field(default_factory=lambda: LISTS)
    """The category of each list that a filter may have."""

    def to_protocol(self) -> dict[str, Any]:
        described: dict[str, Any] = {name: True for name in self.categories if name in self.lists}
        if self.uris:
            described["resourceSubscriptions"] = [*self.uris]
        described |= {name: [*values] for name, values in self.of_extensions.items()}
        return described

    @property
    def methods(self) -> frozenset[str]:
        """The list_changed notifications that the filter allows."""
        categories = (self.categories[name] for name in self.lists)
        return frozenset(f"notifications/{category}/list_changed" for category in categories)


def read(
    params: Json, of_extensions: Collection[str] = (), more_lists: Mapping[str, str] | None = None
) -> Filter:
    """Return the filter of a request without unknown members; raise InvalidParams.

    ``of_extensions`` are the members that extensions have added, and ``more_lists`` their lists.
    """
    categories = {**LISTS, **(more_lists or {})}
    wanted = params.get("notifications")
    if type(wanted) is not dict:
        raise InvalidParams("params.notifications must be an object: the filter of what to hear")
    uris = _strings(wanted, "resourceSubscriptions", "A URI", MAX_URI)
    for name in categories:
        if type(wanted.get(name, False)) is not bool:
            raise InvalidParams(f"params.notifications.{name} must be true or false")
    lists = frozenset(name for name in categories if wanted.get(name))
    added = {name: _strings(wanted, name, "A string", MAX_URI) for name in of_extensions}
    accepted = {name: values for name, values in added.items() if values}
    return Filter(lists, uris, accepted, categories)


def _strings(wanted: Json, name: str, each: str, most: int) -> tuple[str, ...]:
    """Return a list of a filter without repetitions; raise InvalidParams."""
    values = wanted.get(name, [])
    if type(values) is not list or not all(type(value) is str for value in values):
        raise InvalidParams(f"params.notifications.{name} must be a list of strings")
    if any(len(value) > most for value in values):
        raise InvalidParams(too_long(f"{each} in {name}", most))
    return tuple(dict.fromkeys(values))


def meta(identity: RequestId) -> dict[str, Any]:
    return {SUBSCRIPTION_ID: identity}


def acknowledgement(identity: RequestId, accepted: Filter) -> dict[str, Any]:
    params = {"_meta": meta(identity), "notifications": accepted.to_protocol()}
    return jsonrpc.notification("notifications/subscriptions/acknowledged", params)


def change_notification(method: str, uri: str | None, identity: bytes) -> bytes:
    """Return a notification for one subscription; it is encoded once for all subscriptions."""
    return identity.join(_around_id(method, uri))


@lru_cache(maxsize=256)
def _around_id(method: str, uri: str | None) -> list[bytes]:
    params = {"_meta": {SUBSCRIPTION_ID: _PLACEHOLDER}, **({} if uri is None else {"uri": uri})}
    text = jsonrpc.encode(jsonrpc.notification(method, params))
    return text.split(jsonrpc.encode(_PLACEHOLDER), 1)
