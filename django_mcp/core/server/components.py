"""The components of a Server, by kind and key.

Components may be built late, for instance after all URLs can be imported:

| state | meaning | who moves it |
|---|---|---|
| deferred | functions wait that return components | the first reader: building |
| building | one thread calls all of them; other readers wait | success: built; failure: deferred |
| built | the components are declared like others | ``defer``: deferred |

The first reader builds on its own thread (``_build_deferred``), or lets a thread build for which an
event loop waits (``build``). If one of the functions raises, no component is kept. A component that
cannot be added, such as one whose name is taken, is left out: the others are added.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock, RLock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.base import (
    OPTIONS,
    Component,
    ConfigurationError,
    check_options,
    check_texts,
)
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import (
    VERSION,
    ReadComponent,
    ResourceComponent,
    TemplateComponent,
)
from django_mcp.core.components.serializers import copied
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.concurrency.loops import running_loop, without_control_exceptions
from django_mcp.core.ports import Port
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.texts import resolved
from django_mcp.core.server import extensions
from django_mcp.core.server.component_lists import ComponentsOfKind, EncodedLists, InOrder

if TYPE_CHECKING:
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

logger = logging.getLogger("django_mcp")
KINDS = (ToolComponent.kind, ResourceComponent.kind, TemplateComponent.kind, PromptComponent.kind)


class Expected(NamedTuple):
    """The known facts about a component before it is built, for the capabilities of its server."""

    kind: str
    complete: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    """The options of extensions that it will have, as they are declared."""


class Deferred(NamedTuple):
    """Components that are built when they are first read."""

    build: Callable[[], Iterable[Component]]
    expected: Callable[[], Iterable[Expected]] | None


_BUILDING = RLock()
"""Held while deferred components are built. It serves all servers: tests may copy a server."""
_STARTING = Lock()
"""Held while a build in a thread is started or ends."""


class ModelObserver(Protocol):
    """Notifies the clients of a server when objects of a component's model change."""

    def observe(self, server: Server, component: ReadComponent, /) -> None:
        """Observe the model; raises ConfigurationError where its objects have no URI."""


class PendingObserver:
    """The observer until the app is ready, which keeps the components for the next one."""

    def __init__(self) -> None:
        self.pending: list[tuple[Server, ReadComponent]] = []

    def observe(self, server: Server, component: ReadComponent, /) -> None:
        self.pending.append((server, component))


MODEL_OBSERVER: Port[ModelObserver] = Port("observes models", default=PendingObserver())


class ComponentCollection:
    """The components of a server; a change after the start sends a list-changed notification."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._all = defaultdict(ComponentsOfKind, {kind: ComponentsOfKind() for kind in KINDS})
        """The kinds of the protocol; extensions have others."""
        self._deferred: tuple[Deferred, ...] = ()
        self._is_building = False
        self.left_out: dict[Component, str] = {}
        """The deferred components that could not be added, and why."""
        self._background_build: Future[None] | None = None
        self._descriptors: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._encoded = EncodedLists()
        self._tested: dict[Callable[[Any], bool], bool] = {}
        self._by_group: dict[str, list[Component]] | None = None

    def defer(
        self,
        build: Callable[[], Iterable[Component]],
        expected: Callable[[], Iterable[Expected]] | None = None,
    ) -> None:
        """Add the components that ``build`` returns, when components are first read.

        Discovery runs while apps are getting ready, when URLs must not be imported yet. What
        ``build`` raises is raised to each reader. The capabilities are declared from what
        ``expected`` returns; without it, they have to wait for the components.
        """
        self._deferred = (*self._deferred, Deferred(build, expected))
        self._tested = {}
        self._server.plans = {}

    async def build(self) -> None:
        """Build deferred components in a thread, while the event loop answers other requests.

        All requests that need components meanwhile wait for the same build. It goes on if the
        request that started it is cancelled.
        """
        if not self._deferred:
            return
        if running_loop() is None:
            self._build_deferred()
            return
        with _STARTING:
            future = self._background_build
            if future is None:
                future = Future()
                self._background_build = future
                thread = Thread(target=self._build_for, args=[future], daemon=True)
                thread.start()
        await asyncio.shield(asyncio.wrap_future(future))

    def _build_for(self, future: Future[None]) -> None:
        future.set_running_or_notify_cancel()
        error: BaseException | None = None
        try:
            without_control_exceptions(self._build_deferred)
        except BaseException as raised:
            error = raised
        with _STARTING:
            self._background_build = None
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    @property
    def _kinds(self) -> Mapping[str, ComponentsOfKind]:
        """All components by kind, after the deferred ones are built."""
        if self._deferred:
            self._build_deferred()
        return self._all

    def _build_deferred(self) -> None:
        # Other threads wait for the lock. A component may read the components built before.
        with _BUILDING:
            if self._is_building:
                return
            self._is_building = True
            to_build = self._deferred
            try:
                built = [component for deferred in to_build for component in deferred.build()]
                for component in built:
                    self._add_or_leave_out(component)
                # Building may defer others, which were added behind.
                self._deferred = self._deferred[len(to_build) :]
            finally:
                self._is_building = False

    def _add_or_leave_out(self, component: Component) -> None:
        is_taken = self.registered_at(component.kind, component.key) is not None
        try:
            self._check_key(component)
            self._put(component)
        except ConfigurationError as error:
            if not is_taken:
                self._forget(component.kind, component.key)
            self.left_out[component] = str(error)
            logger.error(
                "The MCP server %r lacks a %s: %s", self._server.name, component.kind, error
            )

    def add(self, component: Component) -> None:
        """Add a component; raises ConfigurationError when its key is taken."""
        self._check_key(component)
        self.replace(component)

    def _check_key(self, component: Component) -> None:
        present = self.registered_at(component.kind, component.key)
        if present is not None:
            raise ConfigurationError(
                f"The {component.kind} {component.key!r} is registered twice: at {present.source} "
                f"and at {component.source}. Rename one of them, or register it on another Server."
            )

    def replace(self, component: Component) -> None:
        """Add or replace a component; clients are notified only if its descriptor changes."""
        former = self.registered_at(component.kind, component.key)
        self._put(component)
        if self.is_switched_off(component.kind, component.key):
            return
        if former is None or former.descriptor() != component.descriptor():
            self._server.notifications.component_changed(component.kind)

    def _put(self, component: Component) -> None:
        component = self._with_group_scopes(component)
        if isinstance(component, ReadComponent) and component.model is not None:
            MODEL_OBSERVER.get().observe(self._server, component)
        check_options(component)
        check_texts(component)
        components = self._all[component.kind]
        components.is_used = True
        components.declare(lambda declared: {**declared, component.key: component})
        self.clear_descriptors()
        for extension in extensions.INSTALLED.all:
            if extension.add_to is not None:
                extension.add_to(self._server, component)

    def _with_group_scopes(self, component: Component) -> Component:
        """Return the component with the scopes that its group needs on this server."""
        by_group = self._server.group_scopes
        if by_group is None or component.group is None:
            return component
        if component.group not in by_group:
            # A misspelt name must not leave a group without its scopes.
            raise ConfigurationError(
                f"group_scopes of the Server {self._server.name!r} does not have the group "
                f"{component.group!r} of {component.source}: add it, with [] for no scopes"
            )
        return replace(component, scopes=component.scopes | by_group[component.group])

    def remove(self, kind: str, key: str) -> bool:
        """Remove a component; returns False when there was none."""
        if key not in self._kinds[kind].declared:
            return False
        self._forget(kind, key)
        self._server.notifications.component_changed(kind)
        return True

    def _forget(self, kind: str, key: str) -> None:
        self._all[kind].declare(
            lambda declared: {at: item for at, item in declared.items() if at != key}
        )
        self.clear_descriptors()

    def switch_off(self, keys: Collection[tuple[str, str]], *, is_announced: bool = True) -> None:
        """Hide the components with these kinds and keys as if they did not exist, and no others.

        Those that are not declared yet are hidden when they are. Clients are notified of lists
        that have changed.
        """
        changed: list[str] = []
        for kind, components in tuple(self._all.items()):
            of_kind = frozenset(key for other, key in keys if other == kind)
            if of_kind != components.switched_off and components.switch_off(of_kind):
                changed.append(kind)
        if changed:
            self.clear_descriptors()
        if is_announced:
            for kind in changed:
                self._server.notifications.component_changed(kind)

    def is_switched_off(self, kind: str, key: str) -> bool:
        return key in self._all[kind].switched_off

    def find(self, kind: str, key: str) -> Component | None:
        """Return the component of this kind and key (name, URI or template), or None."""
        # On the path of every call, which the property would slow down.
        if self._deferred:
            self._build_deferred()
        component = self._all[kind].by_key.get(key)
        if component is None and kind == ResourceComponent.kind:
            # With a version in its URI, be it an old one.
            base, _, version = key.rpartition("/")
            resource = self._all[kind].by_key.get(base)
            if isinstance(resource, ResourceComponent) and resource.versions is not None:
                return resource if VERSION.fullmatch(version) else None
        return component

    def of_kind(self, kind: str) -> Sequence[Component]:
        return self._kinds[kind].in_order().listed

    def in_order(
        self, kind: str, selection: Selection | None = None, *, loaded_only: bool = False
    ) -> InOrder:
        """Return the components of this kind that a connection selects, by default all.

        ``loaded_only`` leaves out those without ``always_load``.
        """
        components = self._kinds[kind]
        if selection is None and not loaded_only:
            return components.in_order()
        return components.selected(selection, loaded_only=loaded_only)

    def registered_at(self, kind: str, key: str) -> Component | None:
        """Return a declared component, without building those that are deferred."""
        return self._all[kind].declared.get(key)

    def of_group(self, group: str) -> Sequence[Component]:
        """Return the components of a group, of all kinds; those that everybody may use first."""
        return self._groups().get(group, ())

    def groups(self) -> Sequence[str]:
        return [*self._groups()]

    def _groups(self) -> Mapping[str, Sequence[Component]]:
        groups = self._by_group
        if groups is None:
            groups = {}
            usable = (item for kind in self.kinds() for item in self.of_kind(kind))
            public_first = sorted(usable, key=lambda component: not component.is_public)
            for component in public_first:
                if component.group is not None:
                    groups.setdefault(component.group, []).append(component)
            self._by_group = groups
        return groups

    def kinds(self) -> tuple[str, ...]:
        """The kinds that may have components."""
        return tuple(self._all)

    def guarded(self, kind: str) -> Sequence[Component]:
        """Return the components of this kind that need a permission."""
        return self._kinds[kind].in_order().guarded

    def had(self, kind: str) -> bool:
        """Whether there is, or was, a component of this kind, or one will be built."""
        if self._all[kind].is_used:
            return True
        expected = self._expected()
        if expected is None:
            return self._kinds[kind].is_used
        return any(component.kind == kind for component in expected)

    def _expected(self) -> Sequence[Expected] | None:
        """Return the known facts about deferred components; None where some are unknown."""
        answers = [deferred.expected() for deferred in self._deferred if deferred.expected]
        if len(answers) < len(self._deferred):
            return None
        declared = [component for components in answers for component in components]
        brought = [
            Expected(kind)
            for component in declared
            for option in OPTIONS.of(component.kind).values()
            if component.options.get(option.name) is not None
            for kind in option.brings
        ]
        return [*declared, *brought]

    def registered(self) -> Iterator[Component]:
        """All that are declared, without building those that are deferred."""
        of_kinds = tuple(self._all.values())
        return (item for kind in of_kinds for item in kind.declared_in_order())

    @property
    def has_deferred(self) -> bool:
        """Whether components are built when they are first read."""
        return bool(self._deferred)

    def is_empty(self) -> bool:
        """Return whether there are no components, without building those that are deferred."""
        return not self._deferred and not any(self.registered())

    def all(self) -> Iterator[Component]:
        """All that are declared, with those that are switched off."""
        of_kinds = tuple(self._kinds.values())
        return (item for kind in of_kinds for item in kind.declared_in_order())

    def descriptor(self, revision: Revision, component: Component) -> dict[str, Any]:
        """Return the entry of ``component`` in a list for clients of ``revision``."""
        # Read first: a change replaces the cache afterwards, so that an outdated descriptor, made
        # at the same time in another thread, is stored where nobody finds it.
        descriptors = self._descriptors
        key = (revision.version, component.kind, component.key)
        described = descriptors.get(key) if self._is_declared(component) else None
        if described is None:
            described = self._describe(revision, component)
            if self._is_shared(component):
                descriptors[key] = described
        copy: dict[str, Any] = copied(described)
        return copy

    def encoded_list(self, revision: Revision, components: Sequence[Component]) -> bytes:
        """Return the JSON of a list with the ``descriptor`` of each component."""
        encoded = self._encoded  # Read first: see ``descriptor``.
        key = (revision.version, *components)
        json = encoded.lists.get(key)
        if json is None:
            entries = [self._encoded_entry(encoded, revision, each) for each in components]
            json = b"[%b]" % b",".join(entry for entry, _ in entries)
            if all(is_shared for _, is_shared in entries):
                encoded.add(key, json)
        return json

    def _encoded_entry(
        self, encoded: EncodedLists, revision: Revision, component: Component
    ) -> tuple[bytes, bool]:
        """Return the JSON of an entry, and whether it is the same in all lists."""
        key = (revision.version, component)
        entry = encoded.entries.get(key)
        if entry is not None:
            return entry, True
        entry = jsonrpc.encode(self._describe(revision, component))
        is_shared = self._is_shared(component)
        if is_shared:
            encoded.entries[key] = entry
        return entry, is_shared

    def _is_shared(self, component: Component) -> bool:
        """Whether all lists contain the same descriptor of ``component``.

        It differs for a component that a session registered, perhaps under the same name, and where
        a text is computed at each listing or translated lazily, or its contents may change.
        """
        versions = getattr(component, "versions", None)
        if versions is not None and not versions.is_constant:
            return False
        return self._is_declared(component) and component.is_constant

    def _is_declared(self, component: Component) -> bool:
        return self.find(component.kind, component.key) is component

    def clear_descriptors(self) -> None:
        self._server.plans = {}
        self._descriptors = {}
        self._encoded = EncodedLists()
        self._tested = {}
        self._by_group = None

    def has_any(self, test: Callable[[Any], bool]) -> bool:
        """Return whether a component passes ``test``; the answer is kept until one changes.

        It is kept by the function: ``test`` is one of a module, and not made for each call.
        ``initialize`` calls it for each session, and a server may have thousands of components.
        Deferred components need not be built for it: ``test`` also gets what is ``Expected``.
        """
        expected = self._expected() if self._deferred else ()
        if expected:
            return any(map(test, (*self.registered(), *expected)))
        if test not in self._tested:
            self._tested[test] = any(map(test, self.all()))
        return self._tested[test]

    def _describe(self, revision: Revision, component: Component) -> dict[str, Any]:
        described = revision.describe(component.kind, resolved(component.descriptor()))
        for option in component.declared_options:
            if option.is_listed is not None and not option.is_listed(self._server, revision):
                listed = {} if option.listed is None else option.listed(component)
                for name in listed.keys() - {"_meta"}:
                    described.pop(name, None)
        return described
