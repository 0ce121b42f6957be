"""The Frame: one request, and all that its handler may know, remember and change.

Nothing changes in place. A handler that wants a change kept returns the changed Frame beside
its value. The fields are grouped by who may touch them, as Elixir's Plug does it; the
functions are those of anubis_mcp's Frame, as methods. A Frame knows nothing of Django: what
Django knows reaches it as values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypedDict

from django_mcp.components.base import Component
from django_mcp.components.prompt import PromptComponent
from django_mcp.components.resource import ResourceComponent, TemplateComponent
from django_mcp.components.tool import ToolComponent
from django_mcp.frame.cancellation import NULL_CANCELLATION
from django_mcp.frame.client.base import NULL_CLIENT
from django_mcp.frame.exchange import NULL_EXCHANGE
from django_mcp.frame.session import Change
from django_mcp.frozen import quickly_made
from django_mcp.protocol import meta

if TYPE_CHECKING:
    from django_mcp.auth.base import Principal
    from django_mcp.frame.cancellation import Cancellation
    from django_mcp.frame.client.base import Client
    from django_mcp.frame.exchange import Exchange
    from django_mcp.protocol.errors import Json
    from django_mcp.protocol.jsonrpc import RequestId
    from django_mcp.protocol.revisions import Revision
    from django_mcp.server.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTransport:
    """How a message came over HTTP (the seeds' ``http_t``). Header names are lower-case."""

    req_headers: Sequence[tuple[str, str]] = ()
    query_params: Mapping[str, str] | None = None
    remote_ip: str | None = None
    scheme: str = "http"
    host: str = ""
    port: int = 80
    request_path: str = "/"
    type: Literal["http"] = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTransport:
    """How a message came over stdio (the seeds' ``stdio_t``): the process and its environment."""

    env: Mapping[str, str] = field(default_factory=dict)
    os_pid: int = 0
    type: Literal["stdio"] = "stdio"

    @property
    def pid(self) -> str:
        """The process id as a string, as the seeds' prose has it."""
        return str(self.os_pid)


Transport = HttpTransport | StdioTransport
Pairs = Mapping[str, Any] | Iterable[tuple[str, Any]]


class RequestInfo(NamedTuple):
    """The message being answered (the seeds' ``request_t``): its parameters stay as they came."""

    id: RequestId | None
    method: str
    params: Json


class Private(TypedDict, total=False):
    """What the framework keeps on a Frame (the seeds' ``private_t``); read it, leave it alone."""

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
    subscriptions: frozenset[str]


@quickly_made
@dataclass(frozen=True, slots=True, repr=False)
class Frame:
    """One request, and all that its handler may know, remember and change.

    ``Frame()`` and ``Frame({"status": "active"})`` make one by hand, in a test for instance.
    """

    __mcp_frame__: ClassVar[bool] = True

    # Yours.
    assigns: Mapping[str, Any] = field(default_factory=dict)
    """Your data: what the FRAME_PROCESSORS brought, over what the session remembers."""

    # The caller, from Django.
    user: Any = field(default=None, kw_only=True)
    """The Django user; an AnonymousUser when nobody has logged in."""
    session: Any = field(default=None, kw_only=True)
    """The Django session of the browser cookie, or None where there can be none."""
    auth: Principal | None = field(default=None, kw_only=True)
    """Who calls: the scheme, the scopes and the claims that an authenticator vouches for."""

    # How the message came.
    transport: Transport | None = field(default=None, kw_only=True)

    # The message.
    request: RequestInfo | None = field(default=None, kw_only=True)
    initialized: bool = field(default=False, kw_only=True)
    """Whether the client has said that its session is ready; True where no session is needed."""

    # The client.
    client: Client = field(default=NULL_CLIENT, kw_only=True)
    """The client: send it progress and log messages, or request input from it."""
    cancellation: Cancellation = field(default=NULL_CANCELLATION, kw_only=True)
    """Whether the request was cancelled."""

    # Reserved for the framework.
    private: Private = field(default_factory=Private, kw_only=True)
    changes: tuple[Change, ...] = field(default=(), kw_only=True)
    """What was changed since the message arrived, for the session to remember."""
    exchange: Exchange = field(default=NULL_EXCHANGE, kw_only=True)

    def __repr__(self) -> str:
        """Names and counts, never contents: a Frame ends up in logs."""
        method = self.request.method if self.request else None
        names = ", ".join(sorted(map(str, self.assigns)))
        components = len(self.private.get("components", ()))
        return f"<Frame {method} assigns=[{names}] components={components}>"

    # What you remember.

    def assign(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Remember values: ``assign("key", value)``, ``assign({…})``, ``assign(key=value)``.

        Where the revision has sessions, what the returned Frame remembers is there again in
        the session's next request; it must then be something that JSON can say.
        """
        new = _pairs(key, value, more)
        changes = tuple(Change("assigns", "put", name, item) for name, item in new.items())
        return replace(
            self,
            assigns={**self.assigns, **new},
            changes=(*self.changes, *changes),
            client=self.client.remembering(new),
        )

    def assign_new(self, key: str, make: Callable[[], Any]) -> Frame:
        """Remember ``make()`` under ``key``, unless the key is there already, even as None."""
        return self if key in self.assigns else self.assign(key, make())

    # How the message came.

    def get_req_header(self, name: str) -> str | None:
        """The first request header of this name, in any case; None over stdio."""
        if not isinstance(self.transport, HttpTransport):
            return None
        wanted = name.lower()
        headers = self.transport.req_headers
        return next((value for key, value in headers if key.lower() == wanted), None)

    def get_query_param(self, name: str) -> str | None:
        """The query parameter of the URL; None over stdio or where there is none."""
        if not isinstance(self.transport, HttpTransport):
            return None
        return (self.transport.query_params or {}).get(name)

    def put_transport(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Change fields of the transport; raises TypeError for one that it does not have.

        ``type``, "http" or "stdio", makes it another one, without what was known of the former.
        """
        new = _pairs(key, value, more)
        present = self.transport or HttpTransport()
        kind = TRANSPORTS[new.get("type", present.type)]
        names = fields(kind) if isinstance(present, kind) else ()
        known = {item.name: getattr(present, item.name) for item in names}
        return replace(self, transport=kind(**{**known, **new}))

    # The message.

    @property
    def trace(self) -> dict[str, str]:
        """The trace which the request belongs to: ``traceparent`` and the like, to be passed on.

        Empty when the client told of none, or of one that is not W3C Trace Context.
        """
        return meta.trace(self.request.params.get("_meta")) if self.request else {}

    def put_request(self, request: RequestInfo | Mapping[str, Any]) -> Frame:
        """Set the message being answered: its id, its method and its raw parameters."""
        if not isinstance(request, RequestInfo):
            request = RequestInfo(request.get("id"), request["method"], request.get("params", {}))
        return replace(self, request=request)

    def clear_request(self) -> Frame:
        """Forget the message, as is done after it was answered."""
        return replace(self, request=None)

    # The client.

    def get_client_info(self) -> Json | None:
        """The name and version the client gave; never proof of who it is."""
        return self.private.get("client_info")

    def get_client_capabilities(self) -> Json | None:
        """What the client can do, in this session or, without sessions, in this request."""
        return self.private.get("client_capabilities")

    # The MCP session and its protocol.

    def get_mcp_session_id(self) -> str | None:
        """The id of the MCP session; None where the revision has none."""
        return self.private.get("session_id")

    def get_protocol_version(self) -> str | None:
        """The protocol version in force, or None before one was agreed."""
        return self.private.get("protocol_version")

    def get_protocol_module(self) -> Revision | None:
        """The revision in force, as the value which describes it."""
        return self.private.get("revision")

    def put_private(self, key: str | Pairs = (), /, *value: Any, **more: Any) -> Frame:
        """Set data which belongs to the framework and not to handlers; later values win.

        It is for middleware and the like. What a site adds under keys of its own is remembered
        by the session as assigns are, and must be JSON as they are; the framework's own keys
        hold for this message alone.
        """
        new = _pairs(key, value, more)
        present: Mapping[str, Any] = self.private
        # Middleware says the same at every message, which is no change.
        own = {
            name: item
            for name, item in new.items()
            if name not in Private.__annotations__ and present.get(name, UNSET) != item
        }
        private: Any = {**present, **new}
        return replace(self, private=private).record(
            *(Change("private", "put", name, item) for name, item in own.items())
        )

    def clear_session(self) -> Frame:
        """Forget the session: all of ``private``, and with it the runtime components.

        The pagination limit goes, too. The assigns, the transport, the request and
        ``initialized`` stay, and so does what was assigned in the session.
        """
        cleared = self.clear_components().record(
            Change("pagination_limit", "set"), Change("private", "clear")
        )
        return replace(cleared, private=Private())

    def put_pagination_limit(self, limit: int) -> Frame:
        """Give every list of this session at most ``limit`` items a page; ValueError below 1."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError("The pagination limit is a positive integer")
        return self.put_private(pagination_limit=limit).record(
            Change("pagination_limit", "set", value=limit)
        )

    # Components of this session alone.

    def register_tool(self, name: str, **options: Any) -> Frame:
        """Offer a tool in this session.

        Options: description, input_schema, output_schema (a JSON Schema or a pydantic model),
        title, annotations, meta, task_support, icons, and ``handler``, a function at the top
        of a module or its dotted path; without one, the call goes to the server's
        ``handle_tool_call``. Where the revision has no sessions, it lasts for this call.
        """
        return self._register(ToolComponent.kind, {"name": name, **options})

    def register_prompt(self, name: str, **options: Any) -> Frame:
        """Offer a prompt in this session: description, title, arguments, handler."""
        return self._register(PromptComponent.kind, {"name": name, **options})

    def register_resource(self, uri: str, **options: Any) -> Frame:
        """Offer a resource in this session: title, name, description, mime_type, handler.

        A URI with ``{…}`` registers a template.
        """
        if "{" in uri:
            return self.register_resource_template(uri, **options)
        return self._register(ResourceComponent.kind, {"uri": uri, **options})

    def register_resource_template(self, template: str, **options: Any) -> Frame:
        """Offer a resource template in this session; ``name`` is required."""
        if not options.get("name"):
            raise ValueError("A resource template needs a name: register it with name=…")
        return self._register(TemplateComponent.kind, {"template": template, **options})

    def get_components(self) -> list[Component]:
        """The components of this session alone, not those which the server declares."""
        return [_component(spec) for spec in self.private.get("components", {}).values()]

    def clear_components(self) -> Frame:
        """Take all of this session's own components back."""
        kinds = sorted({spec["kind"] for spec in self.private.get("components", {}).values()})
        return self.put_private(components={}).record(Change("components", "clear", value=kinds))

    def _register(self, kind: str, options: Mapping[str, Any]) -> Frame:
        component = KINDS[kind].from_spec({"kind": kind, **options})
        spec = component.to_spec()
        key = f"{kind}:{component.key}"
        present = self.private.get("components", {})
        if present.get(key) == spec:
            # Nothing that a client would have to hear of.
            return self
        components = {**present, key: spec}
        return self.put_private(components=components).record(
            Change("components", "put", key, spec)
        )

    # For the framework.

    def with_request_assigns(self, values: Mapping[str, Any]) -> Frame:
        """This Frame with assigns which belong to this message alone and are never stored."""
        return replace(self, assigns={**self.assigns, **values})

    def record(self, *changes: Change) -> Frame:
        """This Frame with ``changes`` for the session to remember."""
        return replace(self, changes=(*self.changes, *changes))

    @property
    def message(self) -> RequestInfo:
        """The message being answered; raises LookupError where there is none."""
        if self.request is None:
            raise LookupError("This Frame was made by hand: it has no request")
        return self.request

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

    @property
    def server(self) -> Server:
        """The server which answers."""
        return self.private["server"]

    @property
    def revision(self) -> Revision:
        """The revision in force."""
        return self.private["revision"]


UNSET = object()

TRANSPORTS: Mapping[str, Any] = {"http": HttpTransport, "stdio": StdioTransport}

KINDS: Mapping[str, Any] = {
    component.kind: component
    for component in (ToolComponent, PromptComponent, ResourceComponent, TemplateComponent)
}


def _component(spec: Json) -> Component:
    component: Component = KINDS[spec["kind"]].from_spec(spec)
    return component


def _pairs(key: Any, value: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    """The new values of a call that gives one key and value, a mapping, pairs or keywords."""
    if isinstance(key, str):
        if len(value) != 1:
            raise TypeError(f"Give one value for {key!r}, or a mapping, or keywords")
        return {key: value[0], **more}
    if value:
        raise TypeError("A value needs a key, which is a string")
    return {**dict(key), **more}
