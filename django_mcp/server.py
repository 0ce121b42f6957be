"""Server: a name, what it offers, and how it answers.

A Django site has a default server, to which the bare decorators add, and as many further ones
as it likes; each is mounted at its own path. A Server knows nothing of Django or Channels.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from django_mcp.announcer import Announcing
from django_mcp.components.base import CacheHint, Component, ConfigurationError
from django_mcp.components.prompt import PromptComponent, PromptOptions, prompt_component
from django_mcp.components.resource import (
    ResourceComponent,
    ResourceOptions,
    TemplateComponent,
    resource_component,
)
from django_mcp.components.tool import ToolComponent, ToolOptions, tool_component
from django_mcp.protocol.revisions import REVISIONS, Opening, Revision, opened_by

if TYPE_CHECKING:
    from django_mcp.auth.base import Authenticator
    from django_mcp.frame import Frame
    from django_mcp.protocol.errors import Json, McpError

    Answer = tuple[dict[str, Any] | McpError, Frame]
    CallNext = Callable[[Frame], Awaitable[Answer]]
    Middleware = Callable[[Frame, CallNext], Awaitable[Answer]]

Target = TypeVar("Target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds and switches that a site sets for its servers; see the settings reference."""

    versions: tuple[str, ...] = tuple(revision.version for revision in REVISIONS)
    page_size: int = 50
    request_timeout: float = 60.0
    request_state_lifetime: float = 600.0
    call_timeout: float | None = None
    cache_ttl_ms: int = 0
    log_rate_limit: int | None = None
    subscriptions: int = 1000
    debug: bool = False
    """Whether an unexpected exception may be shown to the client."""


class Sealer(Protocol):
    """Signs what travels through the client, so that it comes back unchanged or not at all."""

    def seal(self, purpose: str, text: str, /) -> str:
        """``text``, signed for this purpose alone."""
        ...

    def unseal(self, purpose: str, sealed: str, /, max_age: float | None = None) -> str | None:
        """The text of what ``seal`` returned for this purpose, or None for anything else."""
        ...


class Catalogue:
    """The components of one kind: by key, and in the order in which they are listed."""

    __slots__ = ("by_key", "ordered")

    def __init__(self) -> None:
        self.by_key: dict[str, Component] = {}
        self.ordered: list[Component] = []

    def add(self, component: Component) -> None:
        """Keep a component; a second one of its key is refused with both places named."""
        present = self.by_key.get(component.key)
        if present is not None:
            raise ConfigurationError(
                f"The {component.kind} {component.key!r} is registered twice: at {present.source} "
                f"and at {component.source}. Rename one of them, or register it on another Server."
            )
        self.by_key[component.key] = component
        insort(self.ordered, component, key=_sort_key)

    def replace(self, component: Component) -> None:
        """Put a component in the place of the one with its key."""
        self.discard(component.key)
        self.add(component)

    def discard(self, key: str) -> Component | None:
        """Take the component of this key out and return it, or None."""
        component = self.by_key.pop(key, None)
        if component is not None:
            self.ordered.remove(component)
        return component


def _sort_key(component: Component) -> tuple[str, ...]:
    return component.sort_key


KINDS = (
    ToolComponent.kind,
    ResourceComponent.kind,
    TemplateComponent.kind,
    PromptComponent.kind,
)


class Server(Announcing):
    """One MCP server: its name, its components, and how it answers.

    ``name`` identifies it in settings, commands and the admin, and gives its path unless
    ``path`` does. ``auth`` lists authenticators (instances or dotted paths); a server without
    any uses the site's, and a site without any refuses to mount it. ``announce_on_start`` tells
    each new session once that the lists which it may read have changed.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str | None = None,
        version: str | None = None,
        path: str | None = None,
        instructions: str | Callable[[], str] | None = None,
        description: str | None = None,
        icons: Sequence[Json] = (),
        website_url: str | None = None,
        auth: Sequence[Authenticator | str] | None = None,
        middleware: Sequence[Middleware] = (),
        capabilities: Json | None = None,
        cache: CacheHint | None = None,
        page_size: int | None = None,
        announce_on_start: bool = True,
    ) -> None:
        self.name = name
        self.info: dict[str, Any] = {"name": name, "version": version or "1.0"}
        self.describe(
            title=title,
            description=description,
            icons=[*icons] or None,
            websiteUrl=website_url,
        )
        self.path = f"/{name}" if path is None else path
        self.instructions = instructions
        self.auth = auth
        self.middleware = tuple(middleware)
        self.cache = cache
        self.page_size = page_size
        self.announce_on_start = announce_on_start
        self.limits = Limits()
        self.sealer: Sealer | None = None
        self._capabilities = capabilities
        self._catalogues = {kind: Catalogue() for kind in KINDS}
        self._described: dict[tuple[str, str, str], dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<Server {self.name!r}>"

    def describe(self, **members: Any) -> None:
        """Set members of what the server says of itself; those which are None stay out."""
        self.info |= {name: value for name, value in members.items() if value is not None}

    # What it offers.

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

    def add(self, component: Component) -> None:
        """Offer a component; raises ConfigurationError when its key is taken."""
        self._catalogues[component.kind].add(component)
        self._changed(component.kind)

    def replace(self, component: Component) -> None:
        """Offer a component in the place of the one with its key."""
        self._catalogues[component.kind].replace(component)
        self._described.clear()
        self._changed(component.kind)

    def remove(self, kind: str, key: str) -> bool:
        """Stop offering a component; False when there was none."""
        self._described.clear()
        if self._catalogues[kind].discard(key) is None:
            return False
        self._changed(kind)
        return True

    def find(self, kind: str, key: str) -> Component | None:
        """The component of this kind and key (name, URI or template), or None."""
        return self._catalogues[kind].by_key.get(key)

    def components(self, kind: str) -> Sequence[Component]:
        """The components of this kind in the order in which they are listed."""
        return self._catalogues[kind].ordered

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
            return revision.describe(component.kind, component.descriptor())
        place = (revision.version, component.kind, component.key)
        described = self._described.get(place)
        if described is None:
            described = revision.describe(component.kind, component.descriptor())
            self._described[place] = described
        return described

    # What a site makes of it.

    def configure(self, limits: Limits, sealer: Sealer) -> None:
        """Take on the site's bounds and its signing; done once, when the site has started."""
        self.limits = limits
        self.sealer = sealer
        self._is_open = True
        for name in ("cache_members", "stateless"):
            self.__dict__.pop(name, None)

    def seal(self, text: str) -> str:
        """``text``, signed as a cursor of this server."""
        assert self.sealer is not None
        return self.sealer.seal(f"cursor:{self.name}", text)

    def unseal(self, sealed: str) -> str | None:
        """What ``seal`` signed, or None for a forgery."""
        assert self.sealer is not None
        return self.sealer.unseal(f"cursor:{self.name}", sealed)

    @cached_property
    def cache_members(self) -> Mapping[str, Any]:
        """How long, and by whom, results may be kept unless their component says otherwise."""
        hint = self.cache or CacheHint(ttl_ms=self.limits.cache_ttl_ms)
        return hint.to_protocol()

    # What it says of itself.

    def get_server_info(self, revision: Revision) -> dict[str, Any]:
        """The server's name and version, with what else the revision has room for."""
        return revision.pick("implementation", self.info)

    def get_instructions(self) -> str | None:
        """Advice for the model on how to use this server."""
        return self.instructions() if callable(self.instructions) else self.instructions

    def get_capabilities(self) -> dict[str, Any]:
        """What the server can do: computed from what is registered, then as overridden.

        An override of None takes a capability away.
        """
        offered = {
            "tools": ({"listChanged": True}, self.components(ToolComponent.kind)),
            "resources": (
                {"listChanged": True, "subscribe": True},
                [
                    *self.components(ResourceComponent.kind),
                    *self.components(TemplateComponent.kind),
                ],
            ),
            "prompts": ({"listChanged": True}, self.components(PromptComponent.kind)),
            "completions": ({}, [item for item in self.all_components() if item.complete]),
        }
        computed: dict[str, Any] = {name: flags for name, (flags, some) in offered.items() if some}
        merged = {"logging": {}, **computed, **(self._capabilities or {})}
        return {name: flags for name, flags in merged.items() if flags is not None}

    # Which revisions it serves.

    def revisions(self, opening: Opening) -> tuple[Revision, ...]:
        """The revisions served which open in this way, oldest first."""
        return opened_by(opening, self.limits.versions)

    @cached_property
    def stateless(self) -> Mapping[str, Revision]:
        """The revisions served which need no handshake, by version."""
        return {item.version: item for item in self.revisions(Opening.ENVELOPE)}
