"""Extensions: one interface for what adds to the protocol, to components or to calls.

An ``Extension`` is a value. Each of its parts is optional, and each is asked for once:

================= ================================== =======================================
part              what it adds                       read by
================= ================================== =======================================
``settings``,     an identifier, or a capability of  ``server.capabilities``, for each
``capability``,   the protocol, among the            server and revision
``flags``         capabilities
``methods``,      requests and notifications         ``Server.configure``, into the revisions
``notifications``                                    of the server
``errors``,       codes of errors, members of        the same
``meta_members``  ``_meta`` for all revisions
``filters``       members of the filter of           ``dispatch.methods.subscriptions``
                  ``subscriptions/listen``
``kinds``         kinds of components, with their    ``server.components``, and whoever lists
                  lists                              components
``options``       options of components              ``components.declaration``, and lists
``before_…``,     steps of calls                     ``dispatch.plan``, for each component
``after_result``
``after_call``    what happens when a call is over   ``dispatch.call_records``
``redirect``,     another call, and a short list     ``Server.configure``
``short_lists``
``add_to``        components of its own              ``server.components``
``start``,        what the worker does               ``runtime.lifespan`` and
``stop``,                                            ``runtime.housekeeping``
``rounds``,
``prune``
``facts``         lines about a server               the workbench
``jobs``,         work for the runner of tasks, and  ``tasks.execution``
``grant``         the run of a stored call
``check``         system checks                      ``checks.components``
``input_page``    a page where users answer calls    ``tasks.call_status``
================= ================================== =======================================

The installed extensions are one tuple, which is replaced: first those of this package, then those
of the other apps, in the order of INSTALLED_APPS.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from django_mcp.core.components.base import OPTION_KINDS, OPTIONS, ConfigurationError, Option
from django_mcp.core.components.declaration import unread
from django_mcp.core.protocol import meta
from django_mcp.core.protocol.errors import MissingClientCapability
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.protocol.texts import similar

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Principal
    from django_mcp.core.components.base import Component
    from django_mcp.core.dispatch.plan import Plan
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.jsonrpc import Request
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server

METHOD = re.compile(r"[a-z][A-Za-z0-9]*(?:[./_-][A-Za-z0-9]+)*/[A-Za-z0-9_]+")
"""A namespace and a name: ``events/list``, ``com.example/receipts/send``."""

ANY_FLAG = frozenset({"*"})
"""The flags of a capability that has whatever it has."""

Result = Any
"""A result in the vocabulary of the newest revision, or an McpError."""
Answer = tuple[Result, "Frame"]


BeforeArguments = Callable[["Frame", "Plan", dict[str, Any]], Awaitable["Answer | None"]]
"""It is given the arguments as they were sent. It returns the answer to the call, or None where the
call goes on."""
BeforeHandler = Callable[["Frame", "Plan", dict[str, Any], Any], Awaitable["Answer | None"]]
"""Like BeforeArguments; it is given the valid arguments as well."""
AfterResult = Callable[["Frame", "Component", Any, dict[str, Any]], dict[str, Any]]
"""It is given the handler's return value and the result, and returns the result. It runs where the
handler runs: on the thread of a synchronous one."""

Run_co = TypeVar("Run_co", bound=Callable[..., Any], covariant=True)


class Step(NamedTuple, Generic[Run_co]):
    """A function at a place of calls, and a condition on components."""

    run: Run_co
    uses: Callable[[Component, Revision], bool] | None = None
    """None: the components that have an option of the extension."""
    decides: bool = False
    """Whether it decides if the call may run. It stands before the steps of other extensions, and
    before the step that makes a task of the call."""
    defers: Callable[[Component], bool] | None = None
    """Whether it lets no call of a component run at once, if it decides."""


class Stream(Protocol):
    """The stream of notifications that a request has opened."""

    frame: Frame
    """The Frame of the request, with the rights that its caller has now."""

    def send(self, method: str, params: Json, /) -> None:
        """Send a notification, with the id of the request in its ``_meta``."""


Serve = Callable[[Stream], Awaitable[None]]
"""Sends notifications until it returns, which ends the stream. It is cancelled when the client
leaves, or the process ends."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    """A method of the protocol which an extension adds.

    ``call`` takes the validated parameters, unless there are none, and the Frame; it may be
    synchronous or async. Its value is the result.
    """

    name: str
    call: Callable[..., Any]
    params: Any = None
    """A pydantic model, or a JSON Schema; None for a method without parameters."""
    revisions: Collection[str] = tuple(BY_VERSION)
    is_cacheable: bool = False
    """Whether its result has the cache hints of the server."""
    requests_input: bool = False
    """Whether it may request input from the client."""
    is_serialized: bool = True
    """Whether its requests wait for others of their session, on a server that serializes them."""
    needs_declaration: bool = False
    """Whether clients have to declare the extension in their capabilities."""
    streams: bool = False
    """Whether ``call`` returns a ``Serve``, once it has accepted the request. The request then has
    no time limit and does not count as a running one, like ``subscriptions/listen``."""
    runs_as_handler: bool = True
    """Whether ``call`` runs within ``ATOMIC_REQUESTS`` and ``around_call``, as handlers do. False
    for an async function that waits for others; what it returns is the result, or an McpError."""

    def __post_init__(self) -> None:
        if not METHOD.fullmatch(self.name):
            raise ConfigurationError(
                f"The method {self.name!r} has no namespace: write one, as in 'receipts/send'"
            )
        for version in self.revisions:
            _check_known(f"The method {self.name!r}", version, BY_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenFilter:
    """A list of strings in the filter of ``subscriptions/listen``.

    ``accept`` returns those that the caller may listen to. ``open`` is given the stream, and them;
    it returns what ends its notifications, to be called when the stream is closed.
    """

    name: str
    accept: Callable[[Frame, Sequence[str]], Awaitable[Sequence[str]]]
    open: Callable[[Stream, Sequence[str]], Awaitable[Callable[[], None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of components that an extension adds: they are subclasses of ``Component``.

    They have permissions, scopes and groups, are found by ``find_component``, listed by
    ``list_components``, shown by ``mcp_show`` and the workbench, and can be switched off.
    """

    name: str
    """Such as "event"."""
    category: str
    """The name of their list, such as "events"."""
    list_filter: str | None = None
    """The member of the filter of ``subscriptions/listen`` with which clients ask for
    ``notifications/<category>/list_changed``, if there is one."""


AfterCall = Callable[["Frame", str, float, "int | None"], object]
Settings = Callable[["Server", "Revision"], "Json | None"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Extension:
    """What adds to the protocol, to components or to calls. All parts but its name are optional.

    ``name`` is an identifier with a prefix: ``com.example/receipts``. Clients learn of it where
    ``settings`` returns an object, which may be empty. Its methods are found there only.
    """

    name: str
    settings: Settings | None = None
    options: Sequence[Option] = ()
    capability: str | None = None
    """The name of a capability that has the same settings, beside those of extensions: for clients
    that look for it there."""
    of_capability: str | None = None
    """The capability of the protocol that its methods and filters belong to, in the place of
    ``settings``."""
    flags: Callable[[Server], Json | None] | None = None
    """Returns the flags of that capability, None for a server that does not have it."""
    narrow_flags: Callable[[Principal, Json], Json] | None = None
    """Returns those of the flags of which a caller is told."""
    methods: Sequence[Method] = ()
    notifications: Collection[str] = ()
    """The notifications that it sends, in all revisions."""
    errors: Callable[[], Mapping[str, int]] | None = None
    """Returns the codes of its errors, by the ``reason`` of their subclass of McpError."""
    meta_members: Collection[str] = ()
    """The members of ``_meta`` that clients of all revisions receive, with the rest of ``_meta``:
    even where a revision has none."""
    kinds: Sequence[Kind] = ()
    filters: Sequence[ListenFilter] = ()
    before_arguments: Sequence[Step[BeforeArguments]] = ()
    before_handler: Sequence[Step[BeforeHandler]] = ()
    after_result: Sequence[Step[AfterResult]] = ()
    after_call: AfterCall | None = None
    """Is given the Frame of a call that is over, its outcome, its duration in seconds and the bytes
    of its response, None for a cancelled call. It returns at once."""
    redirect: Callable[[Server, Request], Request | None] | None = None
    """Returns the call that replaces a call, or None where it stays: before its Frame is made."""
    short_lists: Collection[str] = ()
    """The kinds of components that are listed with ``always_load`` only."""
    is_for: Callable[[Server], bool] | None = None
    """Whether ``redirect`` and ``short_lists`` are for a Server; None: for all."""
    add_to: Callable[[Server, Component], None] | None = None
    """May add components to a Server which was given one."""
    facts: Callable[[Server], Iterable[tuple[Any, Any]]] | None = None
    """Returns headings and texts about a Server for the workbench."""
    jobs: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    """Work that the runner of the site runs where tasks run, by a name that is submitted like the
    id of a task. It keeps its own rows: it may be submitted too often, or get lost."""
    grant: Callable[[Any, Mapping[str, Any]], Awaitable[None]] | None = None
    """Grants the run of a stored call that needs the extension's approval: it verifies the row and
    the call, and raises ValueError for a call that was not approved."""
    check: Callable[[], Iterable[Any]] | None = None
    """Returns the messages of its system checks, when components are declared."""
    input_page: str | None = None
    """The name of the URL pattern of a page where a user answers what their call asks, with the
    argument ``task_id``."""
    start: Callable[[], Awaitable[object]] | None = None
    """Called before the first server starts in a process."""
    stop: Callable[[], Awaitable[object]] | None = None
    """Called before an event loop, or its process, ends: what waits in memory is written. It may be
    called more than once."""
    rounds: Sequence[Callable[[float], Awaitable[object]]] = ()
    """Called about once a minute by one of the workers, with the seconds of a pause between two
    statements."""
    prune: Callable[[], object] | None = None
    """Deletes expired rows, on a thread, and returns a sentence about it for ``mcp_prune``."""

    def __post_init__(self) -> None:
        try:
            meta.check_extensions({self.name: {}})
        except ValueError as error:
            raise ConfigurationError(f"The extension {self.name!r}: {error}") from error
        for notification in self.notifications:
            if not notification.startswith("notifications/"):
                raise ConfigurationError(
                    f"The notification {notification!r} of {self.name}: write "
                    f"'notifications/{notification}'"
                )
        for kind in self.short_lists:
            _check_known(f"short_lists of {self.name}", kind, OPTION_KINDS)

    def settings_for(self, server: Server, revision: Revision) -> Json | None:
        """The settings for clients of a server in a revision; None: it is not declared."""
        return None if self.settings is None else self.settings(server, revision)

    def is_available(self, server: Server, revision: Revision) -> bool:
        """Whether a server has its methods and filters."""
        if self.of_capability is not None:
            return server.capabilities.has(self.of_capability)
        return self.settings_for(server, revision) is not None

    def is_declared_by(self, frame: Frame) -> bool:
        """Whether the client declares the extension."""
        extensions = (frame.get_client_capabilities() or {}).get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(self.name), dict)

    def require(self, frame: Frame) -> None:
        """Raise MissingClientCapability unless the client declares the extension."""
        if not self.is_declared_by(frame):
            raise MissingClientCapability.of({"extensions": {self.name: {}}})

    def is_used_by(self, component: Component) -> bool:
        """Whether a component has an option of the extension."""
        return any(option.name in component.options for option in self.options)

    def has_step(self, step: Step[Any], component: Component, revision: Revision) -> bool:
        """Whether a step of the extension is there for calls of a component."""
        if step.uses is not None:
            return step.uses(component, revision)
        return self.is_used_by(component)


def _check_known(where: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        near = similar(name, known)
        question = f" Did you mean {near!r}?" if near else ""
        raise ConfigurationError(f"{where} has {name!r}: there are {', '.join(known)}.{question}")


class Extensions:
    """The installed extensions, and tables of their parts."""

    def __init__(self) -> None:
        self.all: tuple[Extension, ...] = ()
        self.after_call: tuple[AfterCall, ...] = ()
        self.filters: Mapping[str, tuple[Extension, ListenFilter]] = {}
        self.kinds: Mapping[str, tuple[Extension, Kind]] = {}
        self.lists: Mapping[str, str] = {}
        """The categories of kinds by the member of a filter that asks for their list."""
        self.streaming: frozenset[str] = frozenset()
        """The methods that open a stream of notifications."""
        self.unserialized: frozenset[str] = frozenset()
        """The methods whose requests do not wait for others of their session."""
        self.jobs: Mapping[str, Callable[[], Awaitable[object]]] = {}
        self.grants: Mapping[str, Callable[[Any, Mapping[str, Any]], Awaitable[None]]] = {}
        self._methods: Mapping[str, tuple[Extension, Method]] = {}

    def replace(self, extensions: Iterable[Extension]) -> None:
        """Install these extensions, and no others; raises ConfigurationError for a clash."""
        installed = tuple(extensions)
        _refuse_repeated("extension", installed, lambda one: [one.name])
        _refuse_repeated("option", installed, lambda one: [each.name for each in one.options])
        _refuse_repeated("method", installed, lambda one: [each.name for each in one.methods])
        _refuse_repeated("filter", installed, lambda one: [each.name for each in one.filters])
        _refuse_repeated("kind", installed, lambda one: [each.name for each in one.kinds])
        _refuse_repeated("job", installed, lambda one: one.jobs)
        OPTIONS.replace([each for one in installed for each in one.options])
        self._methods = {each.name: (one, each) for one in installed for each in one.methods}
        methods = [method for _, method in self._methods.values()]
        self.streaming = frozenset(method.name for method in methods if method.streams)
        self.unserialized = frozenset(each.name for each in methods if not each.is_serialized)
        self.filters = {each.name: (one, each) for one in installed for each in one.filters}
        self.kinds = {each.name: (one, each) for one in installed for each in one.kinds}
        kinds = [kind for _, kind in self.kinds.values()]
        self.lists = {kind.list_filter: kind.category for kind in kinds if kind.list_filter}
        self.jobs = {name: job for one in installed for name, job in one.jobs.items()}
        self.grants = {one.name: one.grant for one in installed if one.grant is not None}
        self.after_call = tuple(one.after_call for one in installed if one.after_call)
        self.all = installed

    def method(self, name: str) -> tuple[Extension, Method] | None:
        return self._methods.get(name)

    def category(self, kind: str) -> str:
        """The name of the list of a kind that an extension has added."""
        return self.kinds[kind][1].category

    def steps(self, place: str, component: Component, revision: Revision) -> tuple[Any, ...]:
        """The functions at a place (the name of a field) of the calls of a component.

        Raises ConfigurationError as ``check_read`` does.
        """
        self.check_read(component)
        steps = [
            step
            for extension in self.all
            for step in getattr(extension, place)
            if extension.has_step(step, component, revision)
        ]
        return tuple(step.run for step in sorted(steps, key=lambda step: not step.decides))

    def check_read(self, component: Component) -> None:
        """Raise ConfigurationError if no installed extension has an option of the component.

        Its calls would run without the step for which the option was written.
        """
        others = sorted(component.options.keys() - OPTIONS.of(component.kind).keys())
        if others:
            raise ConfigurationError(f"{component.source} has {others[0]}, {unread(others[0])}")

    @property
    def input_page(self) -> str | None:
        """The page where users answer what their calls ask; the first of the extensions has it."""
        return next((one.input_page for one in self.all if one.input_page is not None), None)

    def flags(self, server: Server) -> dict[str, Json]:
        """The capabilities of the protocol that a server has by extensions, with their flags."""
        flags = {
            one.of_capability: one.flags(server)
            for one in self.all
            if one.of_capability is not None and one.flags is not None
        }
        return {name: value for name, value in flags.items() if value is not None}

    def has_deciding_step(self, component: Component, revision: Revision) -> bool:
        """Whether a step before the handler decides if calls of a component may run."""
        return any(
            extension.has_step(step, component, revision)
            for extension in self.all
            for step in extension.before_handler
            if step.decides
        )

    def defers(self, component: Component) -> bool:
        """Whether a step before the handler lets no call of a component run at once."""
        steps = [step for extension in self.all for step in extension.before_handler]
        return any(step.defers(component) for step in steps if step.defers is not None)

    def declared(self, server: Server, revision: Revision) -> dict[str, Any]:
        """The settings of the extensions that clients of a server are told of, by name."""
        settings = {one.name: one.settings_for(server, revision) for one in self.all}
        return {name: value for name, value in settings.items() if value is not None}

    def revise(self, revision: Revision) -> Revision:
        """Return the revision with the methods and notifications of the extensions."""
        methods = [
            method for _, method in self._methods.values() if revision.version in method.revisions
        ]
        notifications = {name for one in self.all for name in one.notifications}
        capabilities = {one.capability: ANY_FLAG for one in self.all if one.capability}
        codes = [one.errors() for one in self.all if one.errors is not None]
        members = {member for one in self.all for member in one.meta_members}
        if not any((methods, notifications, capabilities, codes, members)):
            return revision
        cacheable = {method.name for method in methods if method.is_cacheable}
        requesting = {method.name for method in methods if method.requests_input}
        return replace(
            revision,
            requests=revision.requests | {method.name for method in methods},
            server_notifications=revision.server_notifications | notifications,
            capabilities={**revision.capabilities, **capabilities},
            meta_members=revision.meta_members | members,
            error_codes={**revision.error_codes, **dict(ChainMap(*map(dict, codes)))},
            cacheable=revision.cacheable | cacheable if revision.cacheable else frozenset(),
            input_request_methods=revision.input_request_methods | requesting,
        )


def _refuse_repeated(
    what: str,
    extensions: Iterable[Extension],
    names_of: Callable[[Extension], Iterable[str]],
) -> None:
    owners: dict[str, str] = {}
    for extension in extensions:
        for name in names_of(extension):
            if name in owners:
                raise ConfigurationError(
                    f"Two extensions have the {what} {name!r}: {owners[name]} and {extension.name}"
                )
            owners[name] = extension.name


INSTALLED = Extensions()
