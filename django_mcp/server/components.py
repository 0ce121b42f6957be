"""What a Server offers: its components, by kind and key, declared at once or as time goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from django_mcp.components import stored
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.prompt import PromptComponent, PromptOptions, prompt_component
from django_mcp.components.resource import (
    ResourceComponent,
    ResourceOptions,
    TemplateComponent,
    resource_component,
)
from django_mcp.components.tool import ToolComponent, ToolOptions, tool_component
from django_mcp.server.notifications import Notifications

if TYPE_CHECKING:
    from django_mcp.protocol.revisions import Revision

Target = TypeVar("Target")
Handler = Callable[..., Any] | type | str | None
"""A function, a class of components, the dotted path of either, or nothing."""


class ComponentsOfKind:
    """The components of one kind: by key, and in the order in which they are listed.

    Neither ever changes under a reader: a change makes new ones, so that a list which is being
    walked through on one thread may be added to on another.
    """

    __slots__ = ("_sorted", "by_key", "is_used")

    def __init__(self) -> None:
        self.is_used = False
        """Whether there ever was a component: clients have been told, and may go on asking."""
        self.by_key: Mapping[str, Component] = {}
        self._sorted: tuple[Mapping[str, Component], Sequence[Component]] = (self.by_key, ())

    @property
    def ordered(self) -> Sequence[Component]:
        """The components in the order in which they are listed."""
        # Sorted when first read: while a site starts, one after the other is added. The order is
        # kept together with what it is the order of, so that of two threads which sort before
        # and after a change, the later one to finish cannot leave behind what is out of date.
        by_key, ordered = self._sorted
        if by_key is not self.by_key:
            by_key = self.by_key
            ordered = sorted(by_key.values(), key=_sort_key)
            self._sorted = (by_key, ordered)
        return ordered

    def add(self, component: Component) -> None:
        """Keep a component; a second one of its key is refused with both places named."""
        present = self.by_key.get(component.key)
        if present is not None:
            raise ConfigurationError(
                f"The {component.kind} {component.key!r} is registered twice: at {present.source} "
                f"and at {component.source}. Rename one of them, or register it on another Server."
            )
        self.replace(component)

    def replace(self, component: Component) -> None:
        """Keep a component, in the place of the one with its key if there is one."""
        self.is_used = True
        self.by_key = {**self.by_key, component.key: component}

    def discard(self, key: str) -> Component | None:
        """Take the component of this key out and return it, or None."""
        component = self.by_key.get(key)
        if component is not None:
            self.by_key = {name: item for name, item in self.by_key.items() if name != key}
        return component


def _sort_key(component: Component) -> tuple[str, ...]:
    return component.sort_key


KINDS = (
    ToolComponent.kind,
    ResourceComponent.kind,
    TemplateComponent.kind,
    PromptComponent.kind,
)


class ComponentCollection(Notifications):
    """The part of a Server which knows its components, and tells clients when they change."""

    def __init__(self) -> None:
        self._catalogues = {kind: ComponentsOfKind() for kind in KINDS}
        self._described: dict[tuple[str, str, str], dict[str, Any]] = {}

    # Declared.

    @overload
    def tool(self, target: Target, /) -> Target: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[Target], Target]: ...

    def tool(self, target: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Offer a function or a Tool class as a tool; as a decorator, with or without options.

        The function itself is returned unchanged. Raises ConfigurationError, which names the
        remedy, for something that cannot be offered.
        """
        return self._decorate(tool_component, target, options)

    @overload
    def resource(self, target: type[Target], /) -> type[Target]: ...
    @overload
    def resource(
        self, uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> Callable[[Target], Target]: ...

    def resource(self, target: Any = None, /, **options: Any) -> Any:
        """Offer a function as the resource at a URI, where ``{…}`` makes it a template.

        ``@server.resource("ticket://{pk}")`` before a function; a class says its URI itself.
        """
        if isinstance(target, str):
            return self._decorate(resource_component, None, {"uri": target, **options})
        return self._decorate(resource_component, target, options)

    @overload
    def prompt(self, target: Target, /) -> Target: ...
    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[Target], Target]: ...

    def prompt(self, target: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Offer a function or a Prompt class as a prompt, in the ways of ``tool``."""
        return self._decorate(prompt_component, target, options)

    def _decorate(self, build: Callable[..., Component], target: Any, options: Any) -> Any:
        def offer(target: Any) -> Any:
            self.add(build(target, **options))
            return target

        return offer if target is None else offer(target)

    # As time goes by.

    def register_tool(self, name: str, handler: Handler = None, /, **options: Any) -> None:
        """Offer a tool from now on, in the place of one of its name, and tell clients.

        ``handler`` is a function, a Tool class, or the dotted path of either; without one,
        calls go to ``handle_tool_call``. The options are those of ``tool``. It is offered by
        this process: what every worker should offer is declared, or registered by each.
        """
        self._register(ToolComponent, tool_component, handler, {**options, "name": name})

    def register_prompt(self, name: str, handler: Handler = None, /, **options: Any) -> None:
        """Offer a prompt from now on, in the ways of ``register_tool``.

        Without a handler, its messages come from ``handle_prompt_get``.
        """
        self._register(PromptComponent, prompt_component, handler, {**options, "name": name})

    def register_resource(self, uri: str, handler: Handler = None, /, **options: Any) -> None:
        """Offer the resource at ``uri`` from now on, in the ways of ``register_tool``.

        A URI with ``{…}`` registers a template. Without a handler, it is read by
        ``handle_resource_read``.
        """
        if "{" in uri:
            self.register_resource_template(uri, handler, **options)
        else:
            self._register(ResourceComponent, resource_component, handler, {**options, "uri": uri})

    def register_resource_template(
        self, template: str, handler: Handler = None, /, **options: Any
    ) -> None:
        """Offer a resource template from now on, in the ways of ``register_resource``."""
        self._register(TemplateComponent, resource_component, handler, {**options, "uri": template})

    def unregister_tool(self, name: str) -> bool:
        """Offer a tool no longer, and tell clients; False when there was none of this name."""
        return self.remove(ToolComponent.kind, name)

    def unregister_prompt(self, name: str) -> bool:
        """Offer a prompt no longer, in the ways of ``unregister_tool``."""
        return self.remove(PromptComponent.kind, name)

    def unregister_resource(self, uri: str) -> bool:
        """Offer a resource, or the template of this text, no longer."""
        kind = TemplateComponent.kind if "{" in uri else ResourceComponent.kind
        return self.remove(kind, uri)

    def unregister_resource_template(self, template: str) -> bool:
        """Offer a resource template no longer."""
        return self.remove(TemplateComponent.kind, template)

    def _register(self, kind: Any, build: Any, handler: Handler, options: dict[str, Any]) -> None:
        function = stored.resolve(handler) if isinstance(handler, str) else handler
        if function is None:
            self.replace(kind.from_spec({"kind": kind.kind, **options}))
        else:
            self.replace(build(function, **options))

    # By kind and key.

    def add(self, component: Component) -> None:
        """Offer a component; raises ConfigurationError when its key is taken."""
        self._catalogues[component.kind].add(component)
        self._changed(component.kind)

    def replace(self, component: Component) -> None:
        """Offer a component in the place of the one with its key.

        Clients are told only when it is listed differently.
        """
        former = self.find(component.kind, component.key)
        self._catalogues[component.kind].replace(component)
        self._described.clear()
        if former is None or former.descriptor() != component.descriptor():
            self._changed(component.kind)

    def remove(self, kind: str, key: str) -> bool:
        """Stop offering a component; False when there was none."""
        if self._catalogues[kind].discard(key) is None:
            return False
        self._described.clear()
        self._changed(kind)
        return True

    def find(self, kind: str, key: str) -> Component | None:
        """The component of this kind and key (name, URI or template), or None."""
        return self._catalogues[kind].by_key.get(key)

    def components(self, kind: str) -> Sequence[Component]:
        """The components of this kind in the order in which they are listed."""
        return self._catalogues[kind].ordered

    def has_offered(self, kind: str) -> bool:
        """Whether there is, or was, a component of this kind."""
        return self._catalogues[kind].is_used

    def all_components(self) -> Iterable[Component]:
        """Every component, kind by kind."""
        return (item for kind in KINDS for item in self._catalogues[kind].ordered)

    def descriptor(self, revision: Revision, component: Component) -> dict[str, Any]:
        """A component as clients of ``revision`` see it listed."""
        # What one session registers under a name is nothing to another.
        lasts = self.find(component.kind, component.key) is component
        # Others are computed at each listing, or translated into the reader's language.
        is_plain = type(component.description) is str and type(component.title) in (str, NoneType)
        if not lasts or not is_plain:
            return self._describe(revision, component)
        place = (revision.version, component.kind, component.key)
        described = self._described.get(place)
        if described is None:
            described = self._described[place] = self._describe(revision, component)
        return described

    def _describe(self, revision: Revision, component: Component) -> dict[str, Any]:
        described = revision.describe(component.kind, component.descriptor())
        if "execution" in described and not self.serves_tasks(revision):
            # Without tasks every tool is as if it had forbidden them.
            del described["execution"]
        return described

    def serves_tasks(self, revision: Revision) -> bool:
        """Whether clients of ``revision`` may call tools as tasks."""
        return False
