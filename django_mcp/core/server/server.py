"""Server, which depends on neither Django nor Channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from weakref import WeakSet

from django_mcp.core.components import stored
from django_mcp.core.components.base import (
    CacheHint,
    Component,
    ConfigurationError,
    WhenDenied,
    check_encodable,
    checked_policy,
    listed_icons,
    scope_names,
)
from django_mcp.core.components.prompt import PromptComponent, PromptOptions, prompt_component
from django_mcp.core.components.resource import (
    ResourceComponent,
    ResourceOptions,
    TemplateComponent,
    resource_component,
)
from django_mcp.core.components.signature import check_text
from django_mcp.core.components.tool import ToolComponent, ToolOptions, tool_component
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.revisions import REVISIONS, Revision, Statefulness
from django_mcp.core.protocol.texts import encodable, resolved
from django_mcp.core.server.capabilities import Capabilities
from django_mcp.core.server.components import ComponentCollection
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.hooks import Hooks
from django_mcp.core.server.in_process import InProcessCalls, Twins
from django_mcp.core.server.notifications import Notifications
from django_mcp.core.server.options import (
    Keepalive,
    ServerOptions,
    Signer,
    UnconfiguredSigner,
    checked_number,
)

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Authenticator
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.content import Icon
    from django_mcp.core.protocol.errors import Json, McpError
    from django_mcp.core.protocol.jsonrpc import Request

    Answer = tuple[dict[str, Any] | McpError, Frame]
    CallNext = Callable[[Frame], Awaitable[Answer]]
    Middleware = Callable[[Frame, CallNext], Awaitable[Answer]]

DEFAULT_PAGE_SIZE = 50
"""Entries per page of a list."""

Target = TypeVar("Target")
S = TypeVar("S")
Handler = Callable[..., Any] | type | str | None
"""A function, a component class, the dotted path of either, or None."""

created: WeakSet[Server] = WeakSet()
"""The servers of this process, for the check of those that nobody registers."""


class Server(Hooks):
    """One MCP server: its name, components, hooks and options.

    * ``name`` identifies it in settings, commands and the admin, and is its default path.
    * ``description``, ``icons``, ``website_url`` and ``repository`` are for its server card.
    * ``authenticators`` are instances or dotted paths, by default the site's. Without any, the
      server is not mounted.
    * ``scopes`` are those that every access token needs; ``group_scopes`` those that it needs in
      addition for the components of each group.
    * ``when_denied`` is "hidden" or "challenged", for components without their own.
    * ``notify_lists_on_initialize`` sends each new session a list-changed notification for each
      list that it may read.
    * ``serialize_requests`` answers the requests of one session one after the other.
    * ``requires_request_state=False`` reads input responses without a request state: safe only
      where no handler asks for a confirmation.
    * ``tool_search`` lists only tools with ``always_load``, and two that find and call the others.
    * ``view_middleware`` is used instead of VIEW_MIDDLEWARE.
    * ``keepalive_ms`` and ``log_rate_limit`` are those of the methods ``set_…``.

    ``@server.hook`` defines its hooks.
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
        icons: Sequence[Icon | str | Json] = (),
        website_url: str | None = None,
        repository: str | Json | None = None,
        authenticators: Sequence[Authenticator | str] | None = None,
        scopes: Iterable[str] | None = None,
        when_denied: WhenDenied | None = None,
        middleware: Sequence[Middleware] = (),
        capabilities: Json | None = None,
        cache: CacheHint | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
        notify_lists_on_initialize: bool = False,
        serialize_requests: bool = False,
        requires_request_state: bool = True,
        keepalive_ms: int | None = None,
        log_rate_limit: int | None = None,
        group_scopes: Mapping[str, str | Iterable[str]] | None = None,
        tool_search: bool = False,
        view_middleware: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self._make_parts(name, version, capabilities)
        self.describe(title=title, description=description, icons=icons or None)
        self.describe(websiteUrl=website_url, repository=repository)
        self.path = f"/{name}" if path is None else path
        self.instructions = _checked_instructions(name, instructions)
        self.authenticators = _checked_list(name, "authenticators", authenticators)
        self._scopes = None if scopes is None else scope_names(f"the Server {name!r}", scopes)
        self.group_scopes = _group_scopes(name, group_scopes)
        self.tool_search = tool_search
        self.view_middleware = _dotted_paths(name, view_middleware)
        self.when_denied = checked_policy(f"the Server {name!r}", when_denied)
        self.middleware = _checked_list(name, "middleware", middleware) or ()
        self.cache = _checked(name, "cache", cache, CacheHint, "a CacheHint")
        self.page_size = checked_number(f"page_size of the Server {name!r}", page_size, least=1)
        self.notify_lists_on_initialize = notify_lists_on_initialize
        self.serialize_requests = serialize_requests
        self.requires_request_state = requires_request_state
        self.set_keepalive(keepalive_ms)
        self.set_log_rate_limit(log_rate_limit)
        created.add(self)  # Not before: one with an invalid option is no server.

    def _make_parts(self, name: str, version: str | None, capabilities: Json | None) -> None:
        _checked(name, "capabilities", capabilities, Mapping, "a dict")
        self.name = name
        self.info: dict[str, Any] = {"name": name, "version": version or "1.0"}
        self._info_by_version: dict[str, dict[str, Any]] = {}
        self._state: dict[type, Any] = {}
        self.components: ComponentCollection = ComponentCollection(self)
        self.capabilities = Capabilities(self, capabilities)
        self.notifications = Notifications(self)
        self.in_process = InProcessCalls(self)

    is_running = False
    """Whether ``start`` has been called in this process, and ``stop`` has not."""
    is_configured = False
    """Whether ``configure`` has set ``options`` and ``signer``."""
    redirects: Sequence[Callable[[Server, Request], Request | None]] = ()
    """What may replace a call by another one: parts of extensions."""
    short_lists: frozenset[str] = frozenset()
    """The kinds of components that are listed with ``always_load`` only."""
    options = ServerOptions()
    signer: Signer = UnconfiguredSigner()

    def __repr__(self) -> str:
        return f"<Server {self.name!r}>"

    def state(self, kind: type[S], /) -> S:
        """Return the object of the class ``kind`` that belongs to this server.

        It is made at its first use, without arguments, and ends with the server. Toolsets and
        extensions keep in it what they know of a server.
        """
        existing: S | None = self._state.get(kind)
        # Of two threads that make one, both get the first.
        made: S = self._state.setdefault(kind, kind()) if existing is None else existing
        return made

    @overload
    def tool(self, target: Target, /) -> Target: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[Target], Target]: ...

    def tool(self, target: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function or a Tool class as a tool; a decorator, with or without options.

        The function is returned unchanged. Raises ConfigurationError, which names the remedy.
        """
        return self._decorate(tool_component, target, options)

    @overload
    def resource(self, target: type[Target], /) -> type[Target]: ...
    @overload
    def resource(
        self, uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> Callable[[Target], Target]: ...

    def resource(self, target: Any = None, /, **options: Any) -> Any:
        """Register a function as the resource at a URI, or at a template if it contains ``{…}``.

        ``@server.resource("ticket://{pk}")`` decorates a function; a class has a URI of its own.
        """
        if isinstance(target, str):
            return self._decorate(resource_component, None, {"uri": target, **options})
        return self._decorate(resource_component, target, options)

    @overload
    def prompt(self, target: Target, /) -> Target: ...
    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[Target], Target]: ...

    def prompt(self, target: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function or a Prompt class as a prompt, like ``tool``."""
        return self._decorate(prompt_component, target, options)

    def _decorate(self, build: Callable[..., Component], target: Any, options: Any) -> Any:
        def register(target: Any) -> Any:
            self.components.add(build(target, **options))
            return target

        return register if target is None else register(target)

    def register_tool(self, name: str, handler: Handler = None, /, **options: Any) -> None:
        """Add a tool, or replace the one of its name, and notify clients.

        ``handler`` is a function, a Tool class, or the dotted path of either; without one,
        ``handle_tool_call`` is called. Only this process has the tool.
        """
        self._register(ToolComponent, tool_component, handler, {**options, "name": name})

    def register_prompt(self, name: str, handler: Handler = None, /, **options: Any) -> None:
        """Like ``register_tool``; without a handler, calls go to ``handle_prompt_get``."""
        self._register(PromptComponent, prompt_component, handler, {**options, "name": name})

    def register_resource(self, uri: str, handler: Handler = None, /, **options: Any) -> None:
        """Like ``register_tool``; without a handler, it is read by ``handle_resource_read``.

        A URI with ``{…}`` registers a template.
        """
        kind = TemplateComponent if "{" in uri else ResourceComponent
        self._register(kind, resource_component, handler, {**options, "uri": uri})

    def register_resource_template(
        self, template: str, handler: Handler = None, /, **options: Any
    ) -> None:
        """Add or replace a resource template, like ``register_resource``."""
        self._register(TemplateComponent, resource_component, handler, {**options, "uri": template})

    def unregister_tool(self, name: str) -> bool:
        """Remove a tool and notify clients; returns False when there was none of this name."""
        return self.components.remove(ToolComponent.kind, name)

    def unregister_prompt(self, name: str) -> bool:
        """Remove a prompt, like ``unregister_tool``."""
        return self.components.remove(PromptComponent.kind, name)

    def unregister_resource(self, uri: str) -> bool:
        """Remove a resource, or the template with this string."""
        kind = TemplateComponent.kind if "{" in uri else ResourceComponent.kind
        return self.components.remove(kind, uri)

    def unregister_resource_template(self, template: str) -> bool:
        """Remove a resource template."""
        return self.components.remove(TemplateComponent.kind, template)

    def _register(
        self,
        component_class: Any,
        build: Callable[..., Component],
        handler: Handler,
        options: dict[str, Any],
    ) -> None:
        target = stored.resolve(handler) if isinstance(handler, str) else handler
        if target is None:
            component = component_class.from_spec({"kind": component_class.kind, **options})
        else:
            component = build(target, **options)
        self.components.replace(component)

    _in_process = Twins("in_process", InProcessCalls.wait)
    call_tool, acall_tool = _in_process.of(InProcessCalls.call_tool)
    read_resource, aread_resource = _in_process.of(InProcessCalls.read_resource)
    get_prompt, aget_prompt = _in_process.of(InProcessCalls.get_prompt)
    complete, acomplete = _in_process.of(InProcessCalls.complete)
    list_tools, alist_tools = _in_process.of(InProcessCalls.list_tools)
    list_resources, alist_resources = _in_process.of(InProcessCalls.list_resources)
    list_resource_templates, alist_resource_templates = _in_process.of(
        InProcessCalls.list_resource_templates
    )
    list_prompts, alist_prompts = _in_process.of(InProcessCalls.list_prompts)
    handle, ahandle = _in_process.of(InProcessCalls.handle)

    def handle_initialize(
        self, client_info: Json, capabilities: Json, *, user: Any = None
    ) -> Frame:
        """Return the Frame of a client with these capabilities, to be passed as ``frame``.

        No session is opened, and no hook is called.
        """
        return self.in_process.port.frame(self, client_info, capabilities, user=user)

    _notifications = Twins("notifications", Notifications.run)
    notify_tools_list_changed, anotify_tools_list_changed = _notifications.of(
        Notifications.notify_tools_list_changed
    )
    notify_prompts_list_changed, anotify_prompts_list_changed = _notifications.of(
        Notifications.notify_prompts_list_changed
    )
    notify_resources_list_changed, anotify_resources_list_changed = _notifications.of(
        Notifications.notify_resources_list_changed
    )
    notify_resource_updated, anotify_resource_updated = _notifications.of(
        Notifications.notify_resource_updated
    )
    send_notification, asend_notification = _notifications.of(Notifications.send_notification)
    ping, aping = Twins("notifications", Notifications.wait).of(Notifications.ping)

    def configure(self, options: ServerOptions, signer: Signer) -> None:
        """Use the options and the signer of the site; called once, when the site has started."""
        self.options = options
        self.signer = signer
        self.plans = {}
        self.is_configured = True
        self._use_extensions()

    def extend(self) -> None:
        """Use the extensions that are installed now: descriptors have parts of them."""
        self.components.clear_descriptors()
        self._use_extensions()

    def _use_extensions(self) -> None:
        own = [one for one in INSTALLED.all if one.is_for is None or one.is_for(self)]
        self.redirects = tuple(one.redirect for one in own if one.redirect is not None)
        self.short_lists = frozenset(kind for one in own for kind in one.short_lists)
        # Cached properties that depend on the options, or on extensions.
        for name in ("cache_members", "by_version", "stateless"):
            self.__dict__.pop(name, None)

    def sign(self, purpose: str, principal: str, text: str, /, *bound_to: Any) -> str:
        """Return ``text`` signed and encrypted, for a client to return it.

        Only this server, at its path, accepts it, for this purpose, from this principal (its key)
        and with the same ``bound_to``, which are JSON values.
        """
        return self.signer.sign(self._binding(purpose, principal, bound_to), text)

    def unsign(
        self,
        purpose: str,
        principal: str,
        signed: str,
        /,
        *bound_to: Any,
        max_age: float | None = None,
    ) -> str | None:
        """Return the text that ``sign`` was given, or None for anything else."""
        binding = self._binding(purpose, principal, bound_to)
        return self.signer.unsign(binding, signed, max_age=max_age)

    def _binding(self, purpose: str, principal: str, bound_to: Sequence[Any]) -> str:
        """Return the text that a signature is bound to."""
        values = [purpose, self.name, self.path, principal, *bound_to]
        return jsonrpc.encode(_in_order(values)).decode()

    @cached_property
    def cache_members(self) -> Mapping[str, Any]:
        """The caching members of results whose component has no hint of its own."""
        return (self.cache or CacheHint(ttl_ms=0)).to_protocol()

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that every access token needs: its own, else the site's."""
        return frozenset(self.options.scopes if self._scopes is None else self._scopes)

    def revisions(self, statefulness: Statefulness) -> tuple[Revision, ...]:
        """Return the served revisions of this statefulness, oldest first."""
        return tuple(
            revision
            for revision in self.by_version.values()
            if revision.statefulness is statefulness and revision.version in self.options.versions
        )

    @cached_property
    def by_version(self) -> Mapping[str, Revision]:
        """Every revision, with the methods and notifications of extensions, oldest first."""
        return {revision.version: INSTALLED.revise(revision) for revision in REVISIONS}

    @cached_property
    def stateless(self) -> Mapping[str, Revision]:
        """The served stateless revisions, by version."""
        return {item.version: item for item in self.revisions(Statefulness.STATELESS)}

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What surrounds every request of the server, from the outside."""
        return self._middleware

    @middleware.setter
    def middleware(self, middleware: Iterable[Middleware]) -> None:
        self._middleware = tuple(middleware)
        for function in self._middleware:
            if not callable(function):
                raise ConfigurationError(
                    f"The Server {self.name!r} has the middleware {function!r}: give async "
                    "functions of the Frame and of the function that goes on"
                )
        self.plans = {}

    def describe(self, **members: Any) -> None:
        """Set members of the server information; those which are None are left out."""
        if members.get("icons") is not None:
            icons = listed_icons(f"the Server {self.name!r}", members["icons"])
            members = {**members, "icons": [*icons]}
        check_encodable(f"The description of the Server {self.name!r}", members)
        self.info |= {name: value for name, value in members.items() if value is not None}
        self.plans = {}
        self._info_by_version.clear()

    def get_server_info(self, revision: Revision) -> dict[str, Any]:
        """Return the server's name, version and the other members which the revision defines."""
        cached = self._info_by_version.get(revision.version)
        if cached is not None:
            return cached
        untranslated = revision.known_fields("implementation", self.info)
        info: dict[str, Any] = resolved(untranslated)
        if info is untranslated:  # Without lazy translations, it is the same for every caller.
            self._info_by_version[revision.version] = info
        return info

    def has_constant_info(self, revision: Revision) -> bool:
        """Whether the server information is the same for every caller: it is not translated."""
        self.get_server_info(revision)
        return revision.version in self._info_by_version

    def get_instructions(self) -> str | None:
        """Return the instructions for the model on how to use this server."""
        instructions = self.instructions
        if callable(instructions):
            instructions = instructions()
        return None if instructions is None else encodable(str(instructions))

    def get_capabilities(self) -> dict[str, Any]:
        """Return the capabilities that the next client receives.

        They are amended by ``capabilities`` of the constructor, where None removes one.
        ``server.capabilities.replace`` declares others.
        """
        return self.capabilities.current()

    def set_keepalive(self, interval_ms: int | None, failure_threshold: int = 3) -> None:
        """Send sessions ``notifications/keepalive`` at this interval; None or 0 stops it.

        After ``failure_threshold`` failures in succession, the session is ended and
        ``handle_error`` is called.
        """
        where = f"keepalive_ms of the Server {self.name!r}"
        interval = checked_number(where, interval_ms or 0, least=0)
        threshold = checked_number(f"failure_threshold, {where},", failure_threshold, least=1)
        self.keepalive = Keepalive(interval, threshold) if interval else None

    def set_log_rate_limit(self, per_second: int | None) -> None:
        """Send each client at most so many log messages per second; None or 0 sends all.

        Each worker counts separately.
        """
        where = f"log_rate_limit of the Server {self.name!r}"
        self.log_rate_limit = checked_number(where, per_second or 0, least=0) or None


def server_of(frame: Frame) -> Server:
    """Return the Server that answers a request, with its own type instead of a protocol."""
    server = frame.server
    assert isinstance(server, Server)
    return server


def checked_server(value: Any, where: str) -> Server:
    """Return a Server; raises ConfigurationError for anything else, such as its name."""
    if isinstance(value, Server):
        return value
    raise ConfigurationError(
        f"The server of {where} is {value!r}: give the Server itself, such as server=shop, where "
        'shop = Server("shop")'
    )


def _group_scopes(
    name: str, scopes: Mapping[str, str | Iterable[str]] | None
) -> Mapping[str, frozenset[str]] | None:
    _checked(name, "group_scopes", scopes, Mapping, "a dict of the scopes by group")
    if scopes is None:
        return None
    where = f"group_scopes of the Server {name!r}"
    return {group: scope_names(where, needed) for group, needed in scopes.items()}


def _in_order(value: Any) -> Any:
    """Return a JSON value with the names of its objects in order: clients may change that.

    A client may send as many names as a message has values: the ``sort_keys`` of ``json`` takes
    twice the time, since it compares pairs.
    """
    if type(value) is dict:
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(item) for item in value] if type(value) in (list, tuple) else value


def _checked(name: str, option: str, given: Any, kind: type, what: str) -> Any:
    """Return an option of a type, or None."""
    if given is None or isinstance(given, kind):
        return given
    raise ConfigurationError(f"{option} of the Server {name!r} is {given!r}: write {what}")


def _checked_instructions(name: str, given: Any) -> Any:
    check_text(given, f"The function instructions of the Server {name!r}")
    check_encodable(f"The instructions of the Server {name!r}", given)
    return given


def _checked_list(name: str, option: str, given: Any) -> Any:
    """Return a list as it is given; a string in its place would be read as characters."""
    if isinstance(given, str):
        raise ConfigurationError(
            f"{option} of the Server {name!r} is the string {given!r}: write a list, [{given!r}]"
        )
    return _checked(name, option, given, Iterable, "a list")


def _dotted_paths(name: str, paths: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(paths, str):
        raise ConfigurationError(
            f"view_middleware of the Server {name!r} is the string {paths!r}: give a list of "
            "dotted paths"
        )
    _checked(name, "view_middleware", paths, Iterable, "a list of dotted paths")
    return None if paths is None else tuple(paths)
