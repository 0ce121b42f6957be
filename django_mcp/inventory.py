"""What is registered, as people are told of it: by the admin and by ``manage.py mcp_show``.

It reads the registry and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django_mcp import registry
from django_mcp.components.base import Component
from django_mcp.protocol.revisions import NEWEST
from django_mcp.server.server import Server


@dataclass(frozen=True, slots=True)
class Entry:
    """One component and the server which offers it."""

    server: Server
    component: Component

    @property
    def identity(self) -> str:
        """What tells it from every other entry."""
        return f"{self.server.name}:{self.component.kind}:{self.component.key}"

    @property
    def kind(self) -> str:
        """The kind, in words."""
        return self.component.kind.replace("_", " ")

    @property
    def app(self) -> str:
        """The label of the app which registered it, or ""."""
        return registry.app_of(self.component)

    @property
    def permission(self) -> str:
        """The permission which a caller needs, or the function which decides; "" for none."""
        permission = self.component.permission
        if callable(permission):
            module = getattr(permission, "__module__", "")
            return f"{module}.{getattr(permission, '__qualname__', repr(permission))}()"
        return permission or ""

    @property
    def search_text(self) -> str:
        """What a search looks at. A description that has to be asked for is left in peace."""
        component = self.component
        description = "" if callable(component.description) else str(component.description)
        return "\n".join(
            (component.name, component.key, component.listed_title or "", description)
        ).casefold()

    @property
    def descriptor(self) -> dict[str, Any]:
        """What clients of the newest revision are told of it."""
        return self.server.descriptor(NEWEST, self.component)

    def facts(self) -> dict[str, Any]:
        """All that is known of it, as plain JSON."""
        component = self.component
        return {
            "server": self.server.name,
            "path": self.server.path,
            "kind": component.kind,
            "name": component.name,
            "app": self.app,
            "source": component.source,
            "permission": self.permission,
            "scopes": sorted(component.scopes),
            "cache": None if component.cache is None else asdict(component.cache),
            "listed": self.descriptor,
        }


def entries(*servers: Server) -> Iterator[Entry]:
    """What these servers offer, or all of them: kind by kind, in the listed order."""
    for server in servers or registry.servers():
        for component in server.all_components():
            yield Entry(server, component)
