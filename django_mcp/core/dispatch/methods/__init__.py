"""The methods of the protocol: one file per namespace, and the table of all.

A method takes the Frame and returns its result in the vocabulary of the newest revision, or an
error, and the Frame that the handler returned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from django_mcp.core.dispatch.methods import (
    completion,
    lifecycle,
    prompts,
    resources,
    subscriptions,
    tools,
)
from django_mcp.core.dispatch.pagination import page

if TYPE_CHECKING:
    from django_mcp.core.dispatch.invocation import Answer
    from django_mcp.core.frame.frame import Frame

    Method = Callable[[Frame], Awaitable[Answer]]

METHODS: Mapping[str, Method] = {
    "initialize": lifecycle.initialize,
    "ping": lifecycle.ping,
    "server/discover": lifecycle.discover,
    "tools/list": partial(page, kind="tool", member="tools"),
    "tools/call": tools.call,
    "resources/list": partial(page, kind="resource", member="resources"),
    "resources/templates/list": partial(page, kind="resource_template", member="resourceTemplates"),
    "resources/read": resources.read,
    "resources/subscribe": subscriptions.subscribe,
    "resources/unsubscribe": subscriptions.unsubscribe,
    "prompts/list": partial(page, kind="prompt", member="prompts"),
    "prompts/get": prompts.get,
    "completion/complete": completion.complete,
    "logging/setLevel": lifecycle.set_level,
    "subscriptions/listen": subscriptions.listen,
}

WITHOUT_COMPONENTS = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""Methods that do not wait until deferred components are built."""

NAMESPACES: Mapping[str, str] = {
    "tools": "tools",
    "resources": "resources",
    "prompts": "prompts",
    "completion": "completions",
    "logging": "logging",
}
"""The capability which a server must declare for the methods of a namespace."""

CAPABILITIES: Mapping[str, str | None] = {
    method: NAMESPACES.get(method.partition("/")[0]) for method in METHODS
}
"""The capability which a server must declare for a method, if any."""
