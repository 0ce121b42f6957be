"""What every component has in common: what it is called, who may use it, how it is listed.

It knows neither the server which offers it nor the Frame which its handler is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, Self

from django_mcp.protocol.errors import Json


class Text(Protocol):
    """A string, or a translation which behaves as one and waits for its reader."""

    def casefold(self) -> str:
        """As of a string; nothing else has it."""


Description = Text | Callable[[], Text]
Permission = str | Callable[[Any], bool | Awaitable[bool]]
Invoke = Callable[[Any, Any], Any]

ORDER_BOUND = 10**9


class ConfigurationError(ValueError):
    """A component was declared in a way that cannot work; the text says what to write instead."""


class InvalidArguments(ValueError):
    """The arguments do not fit; ``problems`` says why, one clause for each, for the caller."""

    def __init__(self, problems: str) -> None:
        self.problems = problems
        super().__init__(problems)


class InvalidOutput(ValueError):
    """What a handler returned is not what its component promised. For the log: it may be secret."""


class UnserializableResult(TypeError):
    """What a handler returned cannot be said by this kind of component. For the log."""


@dataclass(frozen=True, slots=True)
class CacheHint:
    """How long, in milliseconds, and for whom a client may keep an answer.

    ``public`` lets a shared cache hand it to other callers: say so only of what everybody sees.
    """

    ttl_ms: int
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if type(self.ttl_ms) is not int or self.ttl_ms < 0:
            raise ConfigurationError("ttl_ms is a number of milliseconds, 0 or more")
        if self.scope not in ("private", "public"):
            raise ConfigurationError('the scope of a cache hint is "private" or "public"')

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        return {"ttlMs": self.ttl_ms, "cacheScope": self.scope}


@dataclass(frozen=True, slots=True)
class Completer:
    """Suggests values for one argument while the user is typing it."""

    function: Callable[..., Any]
    is_async: bool
    names: tuple[str, ...]
    """Its parameters: for the value typed so far and, if it asks, for the arguments chosen."""
    frame: str | None
    """Its parameter for the Frame."""

    def invoke(self, value: str, arguments: Json, frame: Any) -> Any:
        """Suggestions for what was typed so far; awaitable when ``is_async``."""
        asked = dict(zip(self.names, (value, arguments), strict=False))
        return self.function(**asked, **({self.frame: frame} if self.frame else {}))

    @property
    def requests_input(self) -> bool:
        """It never asks the client anything: the user is still typing."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component(ABC):
    """Something a server offers under a name."""

    kind: ClassVar[str]

    name: str
    title: Text | None = None
    description: Description = ""
    """A callable is asked at every listing."""
    icons: tuple[Json, ...] = ()
    meta: Json | None = None
    annotations: Json | None = None
    permission: Permission | None = None
    scopes: frozenset[str] = frozenset()
    cache: CacheHint | None = None
    order: int = 0
    app: str = ""
    """The label of the Django app which declares it."""
    module: str = ""
    find_line: Callable[[], int] = int
    """Finds out where in its module it is written. To look a class up takes ten milliseconds, and
    mostly nobody asks."""
    invoke: Invoke | None = None
    """Calls the handler with checked arguments and the Frame; None where the server has to."""
    is_async: bool = False
    takes_frame: bool = False
    may_ask: Callable[[], bool] = bool
    """Finds out whether its handler may ask the client something. It is called when a request
    comes, since only then everything exists that the handler calls."""
    complete: Mapping[str, Completer] = field(default_factory=dict)
    spec: Json | None = None
    """What a component of one session was made from."""

    @property
    def requests_input(self) -> bool:
        """Whether its handler may ask the client something."""
        return self.may_ask()

    @property
    def is_public(self) -> bool:
        """Whether every caller may see and use it."""
        return self.permission is None and not self.scopes

    @property
    def key(self) -> str:
        """What is unique among the components of one kind."""
        return self.name

    @property
    def sort_key(self) -> tuple[str, ...]:
        """Strings by which the components of one kind can be put in one certain order."""
        # Shifted, because signed numbers do not sort as text.
        return (f"{self.order + ORDER_BOUND:010d}", self.name, self.key)

    @property
    def display_title(self) -> str:
        """What to show people: the annotations' title, else the title, else the name."""
        return str(self.listed_title or self.name)

    @property
    def listed_title(self) -> str | None:
        """The title which clients are told, if there is one."""
        title = (self.annotations or {}).get("title") or self.title
        return None if title is None else str(title)

    @property
    def listed_description(self) -> str:
        """The description as it is now."""
        # A lazy translation becomes a string for whoever is listening.
        return str(self.description() if callable(self.description) else self.description)

    @property
    def source(self) -> str:
        """Where it is written: ``shop.mcp:12``."""
        line = self.find_line()
        return f"{self.module}:{line}" if line else self.module

    def with_app(self, label: str) -> Self:
        """The same component, declared by the Django app ``label``."""
        return replace(self, app=label)

    @abstractmethod
    def descriptor(self) -> dict[str, Any]:
        """How it is listed, in the words of the newest revision."""

    def to_spec(self) -> dict[str, Any]:
        """What ``from_spec`` makes it from again, as plain JSON."""
        if self.spec is None:
            raise ConfigurationError(
                f"{self.display_title} is declared in {self.source}: only a component which "
                "was registered for one session has a spec"
            )
        return dict(self.spec)

    def _describe(self, **own: Any) -> dict[str, Any]:
        """The members which every kind has, around those of its own; what is absent is left out."""
        members = {
            "name": self.name,
            "title": self.listed_title,
            **own,
            "icons": list(self.icons) or None,
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        return {name: member for name, member in members.items() if member is not None}
