"""The components of a Server, by kind and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.prompt import PromptComponent
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.components.serialization import copied
from django_mcp.components.tool import ToolComponent

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision
    from django_mcp.server.server import Server

KINDS = (ToolComponent.kind, ResourceComponent.kind, TemplateComponent.kind, PromptComponent.kind)

CONSTANT = {str, NoneType}
"""The types of titles and descriptions which are the same for every reader."""


InOrder = tuple[Mapping[str, Component], Sequence[Component], Sequence[Component]]
"""Components by key, in the order of lists, and those of them with a permission."""


class ComponentsOfKind:
    """The components of one kind: by key, and in the order in which they are listed.

    A change replaces both containers instead of modifying them, so that one thread may iterate
    over a list while another one adds to it.
    """

    def __init__(self) -> None:
        self.is_used = False
        """Whether there ever was a component: clients may know the capability."""
        self.by_key: Mapping[str, Component] = {}
        self._sorted: InOrder = (self.by_key, (), ())

    def in_order(self) -> InOrder:
        # Sorted when first read, since a starting site adds one after the other. The order is
        # stored with its mapping: a thread which sorted before a change and finishes after
        # another one cannot store an outdated order.
        current = self._sorted
        if current[0] is not self.by_key:
            by_key = self.by_key
            ordered = sorted(by_key.values(), key=lambda component: component.sort_key)
            guarded = [item for item in ordered if item.permission is not None]
            current = self._sorted = (by_key, ordered, guarded)
        return current


class ComponentCollection:
    """The components of a server; a change after the start sends a list-changed notification."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kinds = {kind: ComponentsOfKind() for kind in KINDS}
        self._descriptors: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, component: Component) -> None:
        """Add a component; raises ConfigurationError when its key is taken."""
        if (present := self.find(component.kind, component.key)) is not None:
            raise ConfigurationError(
                f"The {component.kind} {component.key!r} is registered twice: at {present.source} "
                f"and at {component.source}. Rename one of them, or register it on another Server."
            )
        self.replace(component)

    def replace(self, component: Component) -> None:
        """Add or replace a component; only a different descriptor sends a notification."""
        former = self.find(component.kind, component.key)
        components = self._kinds[component.kind]
        components.is_used = True
        components.by_key = {**components.by_key, component.key: component}
        self.clear_descriptors()
        if former is None or former.descriptor() != component.descriptor():
            self._server.notifications.component_changed(component.kind)

    def remove(self, kind: str, key: str) -> bool:
        """Remove a component; returns False when there was none."""
        components = self._kinds[kind]
        if key not in components.by_key:
            return False
        components.by_key = {name: item for name, item in components.by_key.items() if name != key}
        self.clear_descriptors()
        self._server.notifications.component_changed(kind)
        return True

    def find(self, kind: str, key: str) -> Component | None:
        """Return the component of this kind and key (name, URI or template), or None."""
        return self._kinds[kind].by_key.get(key)

    def of_kind(self, kind: str) -> Sequence[Component]:
        return self._kinds[kind].in_order()[1]

    def guarded(self, kind: str) -> Sequence[Component]:
        """Return the components of this kind that need a permission."""
        return self._kinds[kind].in_order()[2]

    def had(self, kind: str) -> bool:
        return self._kinds[kind].is_used

    def all(self) -> Iterator[Component]:
        return (item for components in self._kinds.values() for item in components.in_order()[1])

    def descriptor(self, revision: Revision, component: Component) -> dict[str, Any]:
        """Return the entry of ``component`` in a list for clients of ``revision``."""
        described: dict[str, Any] = copied(self.shared_descriptor(revision, component))
        return described

    def shared_descriptor(self, revision: Revision, component: Component) -> dict[str, Any]:
        """``descriptor`` for those who only encode it: all lists contain the same one."""
        # Read first: a change replaces the cache afterwards, so that an outdated descriptor, made
        # at the same time in another thread, is stored where nobody finds it.
        descriptors = self._descriptors
        # A component which a session registered under the same name is not cached, nor is a
        # description which is computed at each listing or translated lazily.
        is_declared = self.find(component.kind, component.key) is component
        texts = {type(component.description), type(component.title)}
        if not is_declared or not texts <= CONSTANT:
            return self._describe(revision, component)
        key = (revision.version, component.kind, component.key)
        if (described := descriptors.get(key)) is None:
            described = descriptors[key] = self._describe(revision, component)
        return described

    def clear_descriptors(self) -> None:
        self._descriptors = {}

    def _describe(self, revision: Revision, component: Component) -> dict[str, Any]:
        described = revision.describe(component.kind, component.descriptor())
        if "execution" in described and not self._server.capabilities.has_tasks(revision):
            # Without the tasks capability, clients must not see which tools support tasks.
            del described["execution"]
        return described
