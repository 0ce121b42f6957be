"""The Frame: one request as its handler sees it.

A Frame is immutable. A handler that changes it returns the changed Frame beside its value. The
fields are grouped by who may use them, as in Elixir's Plug; the methods are the functions of
anubis_mcp's Frame. This module does not import Django.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from django_mcp.core.components.base import Component
from django_mcp.core.components.prompt import PromptComponent
from django_mcp.core.components.resource import ResourceComponent, TemplateComponent
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.frame.cancellation import NULL_CANCELLATION, Cancellation
from django_mcp.core.frame.client.bidirectional import NULL_CLIENT
from django_mcp.core.frame.exchange import NULL_EXCHANGE, Exchange
from django_mcp.core.frame.session import Change
from django_mcp.core.frame.transport import TRANSPORTS, HttpTransport, Transport
from django_mcp.core.ports import Port
from django_mcp.core.protocol import meta
from django_mcp.core.protocol.jsonrpc import RequestInfo
from django_mcp.core.protocol.limits import quoted

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Principal
    from django_mcp.core.frame.client.base import Client
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.jsonrpc import RequestId
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.server import Server


Pairs = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Values by key, as ``dict`` takes them."""


class Private(TypedDict, total=False):
    """Data of the framework (``private_t`` of anubis_mcp): read it, do not change it."""

    server: Server
    revision: Revision
    protocol_version: str
    session_id: str
    client_info: Json
    client_capabilities: Json
    init_meta: Json
    log_level: str | None
    pagination_limit: int
    components: Mapping[str, Json]
    path_params: Mapping[str, Any]
    subscriptions: frozenset[str]
    django_request: Any
    is_indirect: bool
    """Whether the client called the tool through ``call_tool``, without its headers."""


DJANGO_REQUEST: Port[Callable[[Frame], Any]] = Port("makes the HttpRequest of a Frame")


@dataclass(frozen=True, init=False, repr=False)
class Frame:
    """One request as its handler sees it.

    ``Frame()`` and ``Frame({"status": "active"})`` make one for a test: its client drops
    messages, and its cancellation is never requested.
    """

    __mcp_frame__: ClassVar[bool] = True
    """By this, lower layers know a Frame without importing it."""

    # For handlers.
    assigns: Mapping[str, Any]
    """Your data: values from FRAME_PROCESSORS override session values."""

    # The caller.
    user: Any
    """The Django user; an AnonymousUser where the caller is not authenticated."""
    session: Any
    """The Django session of the browser cookie, or None."""
    auth: Principal | None
    """The authenticated caller: scheme, scopes and claims."""

    # The message.
    transport: Transport | None
    request: RequestInfo | None
    initialized: bool
    """Whether the session is initialized; True where the revision has no sessions."""

    # The client.
    client: Client
    """The client: send it progress and log messages, or request input from it."""
    cancellation: Cancellation
    """Whether the request was cancelled."""

    # Reserved for the framework.
    private: Private
    changes: tuple[Change, ...]
    """Changes since the message arrived, which the session stores."""
    exchange: Exchange

    # The ``__init__`` that ``dataclass`` writes for a frozen class takes twice as long as this one.
    def __init__(
        self,
        assigns: Mapping[str, Any] | None = None,
        *,
        user: Any = None,
        session: Any = None,
        auth: Principal | None = None,
        transport: Transport | None = None,
        request: RequestInfo | None = None,
        initialized: bool = False,
        client: Client = NULL_CLIENT,
        cancellation: Cancellation = NULL_CANCELLATION,
        private: Private | None = None,
        changes: tuple[Change, ...] = (),
        exchange: Exchange = NULL_EXCHANGE,
    ) -> None:
        values = self.__dict__
        values.update(
            assigns={} if assigns is None else assigns,
            user=user,
            session=session,
            auth=auth,
            transport=transport,
            request=request,
            initialized=initialized,
            client=client,
            cancellation=cancellation,
            private={} if private is None else private,
            changes=changes,
            exchange=exchange,
        )
        _derive(values)

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Frame:
        """A Frame of these values, as transports make it.

        Those in ``MADE_WHEN_READ`` may lack. With a request or a server, there must be the values
        in ``DERIVED`` as well.
        """
        frame = cls.__new__(cls)
        object.__setattr__(frame, "__dict__", values)
        return frame

    def __repr__(self) -> str:
        """Show names and counts, never values, since Frames are logged."""
        method = quoted(self.request.method) if self.request else None
        names = ", ".join(sorted(map(str, self.assigns)))
        components = len(self.private.get("components", ()))
        return f"<Frame {method} assigns=[{names}] components={components}>"

    def assign(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Assign values: ``assign("key", value)``, ``assign({…})``, ``assign(key=value)``.

        Where the revision has sessions, the session stores the values of a returned Frame. They
        must be serializable as JSON.
        """
        new = _pairs(key, value, more)
        new_changes = [Change("assigns", "put", name, item) for name, item in new.items()]
        return self._with(
            assigns={**self.assigns, **new},
            changes=(*self.changes, *new_changes),
            client=self.client.with_assigns(new),
        )

    def assign_new(self, key: str, make: Callable[[], Any]) -> Frame:
        """Assign ``make()`` to ``key``, unless the key exists, even with the value None."""
        return self if key in self.assigns else self.assign(key, make())

    def get_req_header(self, name: str) -> str | None:
        """Return the first request header of this name, in any case; None over stdio."""
        if not isinstance(self.transport, HttpTransport):
            return None
        wanted = name.lower()
        for key, value in self.transport.req_headers:
            if key.lower() == wanted:
                return value
        return None

    def get_query_param(self, name: str) -> str | None:
        """Return the query parameter of the URL; None over stdio or where it is missing."""
        if not isinstance(self.transport, HttpTransport):
            return None
        return (self.transport.query_params or {}).get(name)

    def get_path_param(self, name: str) -> str | None:
        """Return the captured values of the server's path, for ``path="orgs/<slug:org>/mcp"``.

        The value is converted, as for a view. None over stdio or where the path has no such name.
        A task, and a call that was approved, have the values of the call that was made.
        """
        if isinstance(self.transport, HttpTransport):
            return (self.transport.path_params or {}).get(name)
        return self.private.get("path_params", {}).get(name)

    @property
    def django_request(self) -> Any:
        """The request as an ``HttpRequest`` with user and session, for code that expects one.

        It is made when it is first used. Its body is empty, because it was read as the message.
        If Django's middleware runs, it is the request that the middleware received. Over stdio,
        it has the user and no headers.
        """
        private: Any = self.private
        if "django_request" not in private:
            # Not a change of the Frame: it is the same request however often it is asked for.
            private["django_request"] = DJANGO_REQUEST.get()(self)
        return private["django_request"]

    def put_transport(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Change fields of the transport; raises TypeError for an unknown one.

        A different ``type``, "http" or "stdio", starts from an empty transport of that type.
        """
        new = _pairs(key, value, more)
        present = self.transport or HttpTransport()
        transport_class = TRANSPORTS[new.pop("type", present.type)]
        kept = present.values() if isinstance(present, transport_class) else {}
        return self._with(transport=transport_class(**{**kept, **new}))

    @property
    def trace(self) -> dict[str, str]:
        """The W3C Trace Context of the request (``traceparent``, …); empty without a valid one."""
        return meta.trace(self.request.params.get("_meta")) if self.request else {}

    def put_request(self, request: RequestInfo | Mapping[str, Any]) -> Frame:
        """Set the message being answered: id, method and raw parameters."""
        if not isinstance(request, RequestInfo):
            request = RequestInfo(request.get("id"), request["method"], request.get("params", {}))
        return self._with(request=request)

    def clear_request(self) -> Frame:
        """Remove the message."""
        return self._with(request=None)

    def get_client_info(self) -> dict[str, Any] | None:
        """Return the name and version that the client states; they are not authenticated."""
        info = self.private.get("client_info")
        return None if info is None else dict(info)

    def get_client_capabilities(self) -> dict[str, Any] | None:
        """Return the capabilities which the client declares for the session or the request."""
        capabilities = self.private.get("client_capabilities")
        return None if capabilities is None else dict(capabilities)

    def get_mcp_session_id(self) -> str | None:
        """Return the id of the MCP session; None where the revision has no sessions."""
        return self.private.get("session_id")

    def get_protocol_version(self) -> str | None:
        """Return the protocol version, or None before it is negotiated."""
        return self.private.get("protocol_version")

    def get_protocol_module(self) -> Revision | None:
        """Return the protocol revision as the value which describes it."""
        return self.private.get("revision")

    def put_private(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Set private data, for middleware; later values override earlier ones.

        The session stores a site's own keys as it stores assigns. The framework's keys apply to
        this message only.
        """
        new = _pairs(key, value, more)
        present: Mapping[str, Any] = self.private
        of_site = {name: item for name, item in new.items() if name not in Private.__annotations__}
        # Middleware sets the same values for every message: only different ones are stored.
        changes = [
            Change("private", "put", name, item)
            for name, item in of_site.items()
            if name not in present or present[name] != item
        ]
        private: Any = {**present, **new}
        return self._with(private=private).record(*changes)

    def clear_session(self) -> Frame:
        """Clear ``private``, and with it the runtime components and the pagination limit.

        Assigns, transport, request and ``initialized`` are kept, also in the session.
        """
        cleared = self.clear_components()._with(private=Private())
        return cleared.record(Change("pagination_limit", "set"), Change("private", "clear"))

    def put_pagination_limit(self, limit: int) -> Frame:
        """Limit the pages of this session's lists to ``limit`` items; ValueError below 1."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError("The pagination limit is a positive integer")
        change = Change("pagination_limit", "set", value=limit)
        return self.put_private(pagination_limit=limit).record(change)

    def register_tool(self, name: str, **options: Any) -> Frame:
        """Register a tool in this session, or for this call where the revision has no sessions.

        Options: description, input_schema, output_schema, title, read_only, destructive,
        idempotent, open_world, meta, task_support, icons, and ``handler``, a module-level function
        or its dotted path; without one, ``handle_tool_call`` is called.
        """
        return self._register(ToolComponent.kind, {"name": name, **options})

    def register_prompt(self, name: str, **options: Any) -> Frame:
        """Register a prompt in this session: description, title, arguments, handler."""
        return self._register(PromptComponent.kind, {"name": name, **options})

    def register_resource(self, uri: str, **options: Any) -> Frame:
        """Register a resource in this session: title, name, description, mime_type, handler.

        A URI with ``{…}`` registers a template.
        """
        if "{" in uri:
            return self.register_resource_template(uri, **options)
        return self._register(ResourceComponent.kind, {"uri": uri, **options})

    def register_resource_template(self, template: str, **options: Any) -> Frame:
        """Register a resource template in this session; ``name`` is required."""
        if not options.get("name"):
            raise ValueError("A resource template needs a name: register it with name=…")
        return self._register(TemplateComponent.kind, {"template": template, **options})

    def get_components(self) -> list[Component]:
        """Return the components of this session, without the server's."""
        specs = self.private.get("components", {}).values()
        return [KINDS[spec["kind"]].from_spec(spec) for spec in specs]

    def clear_components(self) -> Frame:
        """Remove all components of this session."""
        specs = self.private.get("components", {}).values()
        kinds = sorted({spec["kind"] for spec in specs})
        change = Change("components", "clear", value=kinds)
        return self.put_private(components={}).record(change)

    def _register(self, kind: str, options: Mapping[str, Any]) -> Frame:
        """Add a component to the session as a spec, which is JSON."""
        component = KINDS[kind].from_spec({"kind": kind, **options})
        spec = component.to_spec()
        key = f"{kind}:{component.key}"
        present = self.private.get("components", {})
        if present.get(key) == spec:
            return self  # No change, so no notification.
        changed = self.put_private(components={**present, key: spec})
        return changed.record(Change("components", "put", key, spec))

    # For the framework.

    def with_request_assigns(self, values: Mapping[str, Any]) -> Frame:
        """Return a Frame with assigns for this message only, which the session does not store."""
        return self._with(assigns={**self.assigns, **values})

    def record(self, *changes: Change) -> Frame:
        """Return a Frame with further ``changes`` for the session to store."""
        return self._with(changes=(*self.changes, *changes)) if changes else self

    def _with(self, **changes: Any) -> Frame:
        """Return a Frame with other values of fields.

        ``dataclasses.replace`` would make values that nobody has read.
        """
        values = {**self.__dict__, **changes}
        for name in DERIVED:
            values.pop(name, None)
        _derive(values)
        return self.of_values(values)

    # The next three are read often. ``__init__`` sets them where they are known, so that these
    # functions run only where they are not.

    @cached_property
    def message(self) -> RequestInfo:
        """The message being answered; raises LookupError where there is none."""
        raise LookupError("This Frame was made by hand: it has no request")

    @cached_property
    def server(self) -> Server:
        """The server which answers the request; raises LookupError where there is none."""
        raise LookupError("This Frame was made by hand: it has no server")

    @cached_property
    def revision(self) -> Revision:
        """The protocol revision of the request; raises LookupError where there is none."""
        raise LookupError("This Frame was made by hand: it has no revision")

    @property
    def request_id(self) -> RequestId:
        """The id of the request being answered; raises LookupError for a notification."""
        request_id = self.message.id
        if request_id is None:
            raise LookupError(f"{self.message.method} is a notification: it has no id")
        return request_id

    @property
    def principal(self) -> Principal:
        """The authenticated caller; raises LookupError where there is none."""
        if self.auth is None:
            raise LookupError("This Frame was made by hand: it has no principal")
        return self.auth


class _MadeWhenRead:
    """A field that a Frame of a transport makes when it is first read, because few handlers do."""

    def __init__(self, name: str, make: Callable[[Frame], Any]) -> None:
        self._name = name
        self._make = make

    def __get__(self, frame: Frame | None, owner: type[Frame]) -> Any:
        if frame is None:
            return self
        made = self._make(frame)
        # Another thread may have made it meanwhile.
        return frame.__dict__.setdefault(self._name, made)


def _make_client(frame: Frame) -> Client:
    make, *facts = frame.__dict__["client_facts"]
    client: Client = make(*facts)
    return client


MADE_WHEN_READ: Mapping[str, Callable[[Frame], Any]] = {
    "client": _make_client,
    "transport": lambda frame: frame.exchange.transport,
    "session": lambda frame: frame.exchange.session,
}
"""How the fields are made that the Frame of a transport lacks at first."""
for _name, _make in MADE_WHEN_READ.items():
    # After ``dataclass``, which would take it for a default.
    setattr(Frame, _name, _MadeWhenRead(_name, _make))
DERIVED = ("message", "server", "revision")
"""The values that a Frame derives from ``request`` and ``private``."""


def _derive(values: dict[str, Any]) -> None:
    """Add the values in ``DERIVED``, as far as there is a request and a server."""
    if values["request"] is not None:
        values["message"] = values["request"]
    private = values["private"]
    if "server" in private:
        values["server"] = private["server"]
        values["revision"] = private["revision"]


CLASSES = (ToolComponent, PromptComponent, ResourceComponent, TemplateComponent)
KINDS: Mapping[str, Any] = {component.kind: component for component in CLASSES}
"""The classes of components that a session may have, by their kind."""


def _pairs(key: Any, value: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values given as one key and value, a mapping, pairs or keywords."""
    if isinstance(key, str):
        if len(value) != 1:
            raise TypeError(f"Give one value for {key!r}, or a mapping, or keywords")
        return {key: value[0], **more}
    if value:
        raise TypeError("A value needs a key, which is a string")
    return {**dict(key), **more}
