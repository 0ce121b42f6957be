"""What every component has in common: its name, its permissions and its entry in a list."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import NoneType
from typing import Any, ClassVar, Literal, Protocol, cast, get_args

from pydantic_core import PydanticSerializationError, to_json

from django_mcp.core.protocol import texts
from django_mcp.core.protocol.content import Icon
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.headers import SCOPE_EXPECTED, is_scope
from django_mcp.core.protocol.texts import encodable, resolved

logger = logging.getLogger("django_mcp")


class Text(Protocol):
    """A string, or a lazy translation, which has the methods of a string."""

    def casefold(self) -> str: ...


Description = Text | Callable[[], Text]
Permission = str | Callable[[Any], bool | Awaitable[bool]]
USER_CHECKS = ("login_required", "staff_member", "superuser")
"""Short words for permissions that need no query."""
WhenDenied = Literal["hidden", "challenged"]
"""The answer to a caller who may not use a component: as if it did not exist, or a challenge
where logging in, or more scopes, would help."""
Invoke = Callable[[Any, Any], Any]

CONSTANT = {str, NoneType}
"""The types of titles and descriptions that are the same in every language."""
ORDER_BOUND = 10**9
"""``order`` is between its negative and itself."""


class ConfigurationError(ValueError):
    """A component is declared in a way that cannot work; the message contains the remedy."""


def check_encodable(what: str, value: Any) -> None:
    """Raise ConfigurationError for a text that no message can have; ``what`` begins the error.

    Whatever is no JSON yet, such as a lazy translation or a function, is not read.
    """
    try:
        to_json(value, inf_nan_mode="null", fallback=lambda unread: None)
    except PydanticSerializationError as error:
        if "surrogate" in str(error):
            raise ConfigurationError(
                f"{what}: half of a surrogate pair, such as \\ud83d without the other half, is no "
                "character. Write the character itself"
            ) from error


class Problems:
    """Collects the errors of a declaration, so that one run reports all of them."""

    def __init__(self) -> None:
        self._messages: dict[str, None] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the message of a ConfigurationError that the block raises, and go on after it."""
        try:
            yield
        except ConfigurationError as error:
            self._messages.update(dict.fromkeys(str(error).split(SEPARATOR)))

    def raise_all(self) -> None:
        """Raise a ConfigurationError with all messages, if there is one."""
        if self._messages:
            raise ConfigurationError(SEPARATOR.join(self._messages))


SEPARATOR = "\n"
"""Between the messages of several problems."""


def scope_names(where: str, scopes: str | Iterable[str]) -> frozenset[str]:
    """Return the scopes of a declaration; a string names several, separated by spaces."""
    if not isinstance(scopes, Iterable):
        raise ConfigurationError(f"The scopes of {where} are {scopes!r}: write a list of them")
    names = frozenset(scopes.split() if isinstance(scopes, str) else scopes)
    for name in names:
        if not is_scope(name):
            raise ConfigurationError(f"{where} has the scope {name!r}: write {SCOPE_EXPECTED}")
    return names


def checked_policy(where: str, policy: Any) -> WhenDenied | None:
    """Return the option ``when_denied``; raises ConfigurationError for another word."""
    if policy is not None and policy not in get_args(WhenDenied):
        raise ConfigurationError(
            f'when_denied of {where} is {policy!r}: write "hidden" or "challenged"'
        )
    return cast("WhenDenied | None", policy)


def listed(option: str, names: Any) -> tuple[str, ...]:
    """Return the names of an option; raises ConfigurationError for a string in place of a list."""
    return texts.listed(option, names, ConfigurationError)


def listed_icons(where: str, icons: Any) -> tuple[Json, ...]:
    """Return the icons of a declaration as they are listed; raises ConfigurationError."""
    if not isinstance(icons, Iterable) or isinstance(icons, str | Mapping):
        raise ConfigurationError(
            f'The icons of {where} are {icons!r}: write a list, such as ["https://…"]'
        )
    listed_as = []
    for icon in icons:
        try:
            listed_as.append(Icon.of(icon).to_protocol())
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"One of the icons of {where} is {icon!r}: write a URI with https: or data:, an "
                f"Icon or a dict ({error})"
            ) from error
    return tuple(listed_as)


SIMILARITY = 0.85
"""From this similarity on, a name is a typo of a known one, even where authors add names:
"permissions", but not "operations" for "annotations"."""


def check_names(
    kind: type,
    base: type,
    *,
    is_strict: bool,
    also_known: Collection[str] = (),
    used: Collection[Any] = (),
    elsewhere: Mapping[str, str],
) -> None:
    """Raise ConfigurationError for public names of a class that nothing reads, as typos are.

    ``elsewhere`` are names of other packages, each with what to write here. Strictly, an author has
    only private names, constants in capitals, classes, and the functions among ``used``, the
    values of attributes; otherwise, every name that resembles no known one.
    """
    attributes = {*(name for name in dir(base) if not name.startswith("_")), *also_known}
    unknown = []
    for owner in kind.__mro__:
        members = {} if owner in base.__mro__ else vars(owner)
        for name, value in members.items():
            is_known = name.startswith("_") or name in attributes
            is_constant_or_class = name.isupper() or isinstance(value, type)
            is_of_author = is_constant_or_class or any(value is each for each in used)
            if not is_known and (name in elsewhere or not is_of_author):
                unknown.append(name)
    remedies = {}
    for name in unknown:
        near = texts.similar(name, attributes, 0.6 if is_strict else SIMILARITY)
        if is_strict or near or name in elsewhere:
            remedies[name] = elsewhere.get(name) or (near and repr(near))
    if remedies:
        said = [f"{n!r} (write {it})" if it else repr(n) for n, it in remedies.items()]
        raise ConfigurationError(
            f"{kind.__module__}.{kind.__qualname__} has {', '.join(said)}: a {base.__name__} "
            "has no such attribute or method. Begin names of your own with an underscore"
        )


@contextmanager
def explain(prefix: str) -> Iterator[None]:
    """Raise a ValueError of the block as a ConfigurationError: ``prefix``, and its message."""
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(f"{prefix}: {error}") from error


class InvalidOutput(ValueError):
    """The returned value does not match the output schema. For the log: it may be secret."""


class UnserializableResult(TypeError):
    """The returned value cannot be serialized for this kind of component. For the log."""


@dataclass(frozen=True, slots=True)
class CacheHint:
    """The cache hints of a response: a time in milliseconds, and a scope.

    Use "public" only where all callers get the same response. That of a server is private for lists
    and resources that depend on permissions or on the selected groups.
    """

    ttl_ms: int
    scope: Literal["private", "public"] = "private"

    def __post_init__(self) -> None:
        if type(self.ttl_ms) is not int or self.ttl_ms < 0:
            raise ConfigurationError("ttl_ms is a number of milliseconds, 0 or more")
        if self.scope not in ("private", "public"):
            raise ConfigurationError('the scope of a cache hint is "private" or "public"')

    def to_protocol(self) -> dict[str, Any]:
        return {"ttlMs": self.ttl_ms, "cacheScope": self.scope}


@dataclass(frozen=True, slots=True)
class Completer:
    """Suggests values for one argument while the user is typing it."""

    function: Callable[..., Any]
    is_async: bool
    names: tuple[str, ...]
    """Its parameters: the value typed so far and, optionally, the arguments chosen before."""
    frame: str | None
    """The name of its parameter for the Frame."""
    requests_input: bool = False
    """The protocol has no input requests during a completion."""

    def invoke(self, value: str, arguments: Json, frame: Any) -> Any:
        given = dict(zip(self.names, (value, arguments), strict=False))
        return self.function(**given, **({self.frame: frame} if self.frame else {}))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Component(ABC):
    """A tool, resource, resource template or prompt."""

    kind: ClassVar[str]
    name: str
    title: Text | None = None
    description: Description = ""
    """A callable is called for every list."""
    icons: tuple[Json, ...] = ()
    meta: Json | None = None
    annotations: Json | None = None
    permission: Permission | None = None
    scopes: frozenset[str] = frozenset()
    when_denied: WhenDenied | None = None
    """None: the policy of the server."""
    cache: CacheHint | None = None
    order: int = 0
    group: str | None = None
    """The group that selects it for a connection."""
    is_in_every_selection: bool = False
    """Whether it is there whatever a connection selects: a tool that only leads to others."""
    always_load: bool = False
    """Whether it is listed by a server that lists few of its tools."""
    module: str = ""
    find_line: Callable[[], int] = int
    """Its line in the module. Called only when needed: for a class it takes ten milliseconds."""
    handler: Callable[..., Any] | None = None
    """The function as it was registered; None where a hook of the server answers."""
    invoke: Invoke | None = None
    """Calls the handler with validated arguments and the Frame; None without a handler."""
    is_async: bool = False
    takes_frame: bool = True
    """Whether its handler is passed the Frame, and can so request input from the client."""
    requests_input: bool = False
    """Whether its handler is declared to request input from the client."""
    complete: Mapping[str, Completer] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of extensions that it has, as they were read."""
    spec: Json | None = None
    """The specification of a component that was registered for one session."""
    is_public: bool = field(init=False)
    """Whether everybody may use it. A field, since each call reads it."""

    def __post_init__(self) -> None:
        is_public = self.permission is None and not self.scopes
        object.__setattr__(self, "is_public", is_public)

    @property
    def reads_only(self) -> bool:
        """Whether using it changes nothing: all but tools, which have to declare it."""
        return True

    @property
    def key(self) -> str:
        """Unique among the components of one kind."""
        return self.name

    @property
    def is_constant(self) -> bool:
        """Whether it is listed alike for every caller: nothing is computed or translated."""
        if callable(self.description):
            return False
        for option in self.declared_options:
            if option.is_constant is not None and not option.is_constant(self.options[option.name]):
                return False
        listed = self.descriptor()
        return resolved(listed) is listed and {type(self.title), type(self.description)} <= CONSTANT

    @property
    def declared_options(self) -> list[Option]:
        """The declarations of the options that it has."""
        installed = OPTIONS.of(self.kind)
        return [installed[name] for name in self.options if name in installed]

    @property
    def is_for_models(self) -> bool:
        """Whether models may know of it."""
        return all(option.is_for_models for option in self.declared_options)

    @property
    def display_title(self) -> str:
        """The title for people, else the name."""
        return str(self.listed_title or self.name)

    @property
    def listed_title(self) -> str | None:
        return None if self.title is None else self._sendable("title", str(self.title))

    @property
    def listed_description(self) -> str:
        # A lazy translation becomes a string in the language of the request.
        text = str(self.description() if callable(self.description) else self.description)
        return self._sendable("description", text)

    def _sendable(self, member: str, text: str) -> str:
        """A computed text as a message can have it: one that it cannot would take whole lists."""
        sendable = encodable(text)
        if sendable != text:
            _log_escaped(self.kind, self.key, member, self.source)
        return sendable

    @property
    def source(self) -> str:
        """Module and line of the declaration: ``shop.mcp:12``."""
        line = self.find_line()
        return f"{self.module}:{line}" if line else self.module

    @abstractmethod
    def descriptor(self) -> dict[str, Any]:
        """Its entry in a list, in the format of the newest revision."""

    def to_spec(self) -> dict[str, Any]:
        """The argument of ``from_spec``, as plain JSON."""
        if self.spec is None:
            raise ConfigurationError(
                f"{self.display_title} is declared in {self.source}: only a component that "
                "was registered for one session has a spec"
            )
        return dict(self.spec)

    def _describe(self, **own: Any) -> dict[str, Any]:
        """The members of every kind, around its own members; absent ones are left out."""
        members = {
            "name": self.name,
            "title": self.listed_title,
            **own,
            "icons": list(self.icons) or None,
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        for option in self.declared_options:
            if option.listed is not None:
                listed = option.listed(self)
                meta = {**listed.get("_meta", {}), **(members["_meta"] or {})}
                members = {**members, **listed, "_meta": meta or None}
        return {name: member for name, member in members.items() if member is not None}


@lru_cache(maxsize=512)
def _log_escaped(kind: str, key: str, member: str, source: str) -> None:
    """Log a computed text once, not in each list."""
    logger.error(
        "The %s of the %s %r at %s has half of a surrogate pair, which is no character: clients "
        "are sent an escape in its place",
        member, kind, key, source,
    )  # fmt: skip


LISTED = (
    "title", "description", "icons", "arguments", "mime_type",
    "input_schema", "output_schema", "payload_schema",
)  # fmt: skip
"""Attributes of components that clients are sent and that nothing else has encoded."""


def check_texts(component: Component) -> None:
    """Raise ConfigurationError for a constant text that no list can have."""
    for name in LISTED:
        try:
            check_encodable(name, getattr(component, name, None))
        except ConfigurationError as error:
            where = f"the {component.kind} {component.key!r} at {component.source}"
            raise ConfigurationError(f"{where[0].upper()}{where[1:]}: {error}") from None


# The options of a kind that extensions add.

OPTION_KINDS = ("tool", "resource", "prompt")
"""The kinds of components; templates have the options of resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of components; ``None`` as its value is the same as no option.

    ``read`` is given the value and a description of the component. It returns what the component
    has in its ``options``, None for nothing, or raises ConfigurationError with the remedy. A
    function is read as it is, not called.
    """

    name: str
    read: Callable[[Any, str], Any] = lambda value, where: value
    kinds: Collection[str] = ("tool",)
    may_be_method: bool = False
    """Whether a method without parameters of a class is called for the value."""
    meta: Callable[[Any], Json] | None = None
    """Returns members of ``_meta`` for the value of ``read``. The author's own ``meta``
    overrides them."""
    listed: Callable[[Component], Json] | None = None
    """Returns members of the component's entry in lists, each time that it is listed. The members
    of its ``_meta`` are added to those that the component has."""
    is_constant: Callable[[Any], bool] | None = None
    """Whether ``listed`` returns the same each time, for the value of ``read``; None: it does."""
    is_listed: Callable[[Any, Any], bool] | None = None
    """Whether clients of a Server and a revision receive what ``listed`` returns beside ``_meta``;
    None: all."""
    always_load: bool = False
    """Whether a tool with it is listed by servers that list few of their tools."""
    is_for_models: bool = True
    """Whether models may know of a tool with it."""
    brings: Collection[str] = ()
    """The kinds of the components that the extension adds for one with it."""
    check: Callable[[Any, Component], None] | None = None
    """Checks the value of ``read`` and the registered component; raises ConfigurationError."""
    label: Any = None
    """The heading of the value in ``mcp_show`` and the workbench; None: it is not printed."""
    only_on_server: str | None = None
    """Why a component that is registered for one session cannot have it; None: it can."""
    answers_with_text: bool = False
    """Whether calls of a tool with it may be answered with a text in the place of a result, so that
    the output schema of the tool is not listed."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise ConfigurationError(f"The option {self.name!r} cannot be written: name=…")
        for kind in self.kinds:
            if kind not in OPTION_KINDS:
                near = texts.similar(kind, OPTION_KINDS)
                question = f" Did you mean {near!r}?" if near else ""
                raise ConfigurationError(
                    f"The option {self.name!r} is for components of the kind {kind!r}: there are "
                    f"{', '.join(OPTION_KINDS)}.{question}"
                )


class Options:
    """Options of components by kind, and by name."""

    def __init__(self) -> None:
        self._by_kind: Mapping[str, Mapping[str, Option]] = {}

    def replace(self, options: Collection[Option]) -> None:
        """Know these options, and no others."""
        self._by_kind = {
            kind: {option.name: option for option in options if kind in option.kinds}
            for kind in OPTION_KINDS
        }

    def of(self, kind: str) -> Mapping[str, Option]:
        return self._by_kind.get(kind.removesuffix("_template"), {})


OPTIONS = Options()
"""The options of the installed extensions."""


def check_options(component: Component) -> None:
    """Raise ConfigurationError for an option that does not fit its component."""
    for name, value in component.options.items():
        option = OPTIONS.of(component.kind).get(name)
        if option is not None and option.check is not None:
            option.check(value, component)


def check_spec(spec: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an option that components of one session cannot have."""
    for option in OPTIONS.of(spec.get("kind", "tool")).values():
        if option.only_on_server is not None and spec.get(option.name):
            name = spec.get("name", spec.get("uri"))
            raise ConfigurationError(
                f"{name!r} is registered for one session: {option.only_on_server}"
            )
