"""A client for tests of a server: every revision, every transport, no network.

async with Client(server, user=user) as client:
    result = await client.call_tool("add", {"a": 1, "b": 2})
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from os import PathLike
from typing import Any, Literal, Self, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import registry
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.base import scope_names
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import call_records
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import jsonrpc, request_meta
from django_mcp.core.protocol.errors import Json, McpError
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST, Feature, Revision, Statefulness
from django_mcp.core.server.failures import Observers
from django_mcp.core.server.server import Server
from django_mcp.runtime import pools
from django_mcp.testing import catalogue, queries, rendered_app
from django_mcp.testing.asgi import TIMEOUT, Message
from django_mcp.testing.connections import CONNECTIONS
from django_mcp.testing.connections.base import Facts
from django_mcp.testing.input_answers import Answer, InputAnswers, problems_of
from django_mcp.testing.received import Arrivals, ReceivedNotifications, Violations
from django_mcp.testing.rendered_app import RenderedApp
from django_mcp.testing.results import CallResult, ErrorResponse
from django_mcp.ui.mcp_apps import metadata

Transport = Literal["memory", "http", "stdio"]

MAX_ATTEMPTS = 10
"""How often a request is sent again because its result requires input."""

CLIENT_INFO = {"name": "django-mcp-test-client", "version": "1"}

METHOD_NOT_FOUND = -32601
UNKNOWN_SUFFIX = "_unknown"

CATALOGUE = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The member of each result that lists entries, by its method."""

LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


class Client(ReceivedNotifications):
    """One client of one server.

    ``server`` is a Server or the name of one, by default the default server. ``version`` is the
    protocol version, by default the newest. ``user`` and ``scopes`` set the principal; over HTTP,
    the authenticators run if neither is given. ``elicitation``, ``sampling`` and ``roots`` are
    responses to input requests, or functions of their parameters; the client declares these
    capabilities.

    Synchronous handlers run on the thread of the test, inside its transaction;
    ``sync_execution="threads"`` runs them in parallel. Unexpected exceptions are raised in the
    test, unless ``raise_exceptions=False``. Raises ImproperlyConfigured if a module ``mcp`` cannot
    be imported.
    """

    raise_exceptions = True
    """The default of the argument."""
    records_calls = False
    """Whether ``django_mcp.contrib.call_log`` stores the calls, for tests of the log itself."""

    def __init__(
        self,
        server: Server | str | None = None,
        *,
        version: str | None = None,
        transport: Transport = "memory",
        user: Any = None,
        scopes: Iterable[str] = (),
        elicitation: Answer | None = None,
        sampling: Answer | None = None,
        roots: Answer | Sequence[Json] | None = None,
        capabilities: Json | None = None,
        log_level: str | None = "debug",
        headers: Mapping[str, str] | None = None,
        query: str = "",
        session: Any = None,
        timeout: float | None = None,
        sync_execution: Literal["thread_sensitive", "threads"] = "thread_sensitive",
        raise_exceptions: bool | None = None,
    ) -> None:
        registry.raise_broken()
        self._set_state()
        if not isinstance(server, Server):
            server = registry.default if server is None else registry.get(server)
        self.server = registry.configure(server)
        self.revision: Revision = BY_VERSION[version or NEWEST.version]
        self._answers = InputAnswers(elicitation, sampling, roots)
        self._capabilities = self._answers.capabilities if capabilities is None else capabilities
        self._log_level = log_level
        self._timeout = TIMEOUT if timeout is None else timeout
        self._sync_execution = sync_execution
        if raise_exceptions is not None:
            self.raise_exceptions = raise_exceptions
        caller = _principal(user, scope_names("scopes of the client", scopes))
        facts = Facts(self.server, caller, headers or {}, query, session, self._timeout)
        self.connection = CONNECTIONS[transport](facts, self)
        self._options: dict[str, Any] = {
            "version": version,
            "transport": transport,
            "elicitation": elicitation,
            "sampling": sampling,
            "roots": roots,
            "capabilities": capabilities,
            "log_level": log_level,
            "headers": headers,
            "query": query,
            "timeout": timeout,
            "sync_execution": sync_execution,
            "raise_exceptions": raise_exceptions,
        }

    def _set_state(self) -> None:
        """Begin with nothing sent and nothing received."""
        self.notifications = []
        self.initialize_result: dict[str, Any] = {}
        """The result of ``initialize``; empty in a stateless revision."""
        self._ids = count(1)
        self._violations = Violations()
        self._unexpected: dict[Any, BaseException] = {}
        self._is_open = False
        self._arrivals = Arrivals(self)
        self._acknowledged = asyncio.Event()
        self._exchange: list[Message] = []
        """The messages of both sides, in their order."""
        self._queries: list[str] = []
        self._others: list[Client] = []
        """The clients of ``as_user``, which are closed with this one."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # Opening and closing.

    async def open(self) -> None:
        """Connect and initialize; the first request does so if the client is not open."""
        if not self._is_open:
            await self.connect()
            if self.revision.statefulness is Statefulness.SESSION:
                await self._initialize()

    async def connect(self) -> None:
        """Open the connection without ``initialize``: for tests of the initialization itself."""
        self._is_open = True
        self.server.state(Observers).append(self._note_unexpected)
        with self._threads():
            await self.connection.open()

    async def close(self) -> None:
        """Close the connection, and end the session."""
        while self._others:
            await self._others.pop().close()
        if self._is_open:
            self._is_open = False
            self.server.state(Observers).remove(self._note_unexpected)
            with self._threads():
                await self.connection.close()

    def as_user(self, user: Any, *, scopes: Iterable[str] = ()) -> Client:
        """Return a client like this one, of another user; it is closed with this one."""
        other = type(self)(self.server, user=user, scopes=scopes, **self._options)
        self._others.append(other)
        return other

    async def _initialize(self) -> None:
        params = {
            "protocolVersion": self.revision.version,
            "capabilities": dict(self._capabilities),
            "clientInfo": CLIENT_INFO,
        }
        self.initialize_result = await self.request("initialize", params)
        self.revision = BY_VERSION[self.initialize_result["protocolVersion"]]
        await self.notify("notifications/initialized")
        if self._log_level is not None and "logging" in self.initialize_result["capabilities"]:
            await self.request("logging/setLevel", {"level": self._log_level})

    # Requests.

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools of all pages."""
        return await self._list("tools/list", "tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Return the resources of all pages."""
        return await self._list("resources/list", "resources")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Return the resource templates of all pages."""
        return await self._list("resources/templates/list", "resourceTemplates")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts of all pages."""
        return await self._list("prompts/list", "prompts")

    async def call(self, name: str, /, **arguments: Any) -> CallResult:
        """Return the result of a call of a tool, for assertions.

        ``(await client.call("add", a=1, b=2)).assert_ok()``. No answer of the server raises, so a
        test has to assert something: an error of the protocol is in ``error``.
        """
        began = self._position()
        try:
            return await self.call_tool(name, arguments)
        except ErrorResponse as error:
            return CallResult(**self._since(began), error=error)

    async def call_tool(
        self, name: str, arguments: Json | None = None, *, meta: Json | None = None
    ) -> CallResult:
        """Return the result of a call: its ``text``, ``structured`` and ``is_error``, and a dict.

        A failed call has a result as well, with ``is_error`` True.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        result = await self.request("tools/call", params, meta=meta)
        component = self.server.components.find("tool", name)
        output = component.output if isinstance(component, ToolComponent) else None
        return CallResult(result, output=output, exchange=result.exchange, queries=result.queries)

    async def read_resource(self, uri: str, *, meta: Json | None = None) -> CallResult:
        """Return the contents of a resource."""
        return await self.request("resources/read", {"uri": uri}, meta=meta)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, meta: Json | None = None
    ) -> CallResult:
        """Return the messages of a prompt."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self.request("prompts/get", params, meta=meta)

    async def render_app(self, name: str, arguments: Json | None = None) -> RenderedApp:
        """Return the view of a tool with the result of a call, as hosts show them.

        It has ``html``, ``meta``, ``result``, and ``blocked``. Raises AssertionError if the tool is
        not listed, or has no view.
        """
        host = self._app_host()
        tools = {tool["name"]: tool for tool in await host.list_tools()}
        if name not in tools:
            raise AssertionError(f"The tool {name!r} is not listed. These are: {[*tools]}")
        uri = metadata.resource_uri(tools[name])
        if uri is None:
            raise AssertionError(f"The tool {name!r} has no view")
        resource = await host.read_resource(uri)
        resources = {listed["uri"]: listed for listed in await host.list_resources()}
        result = await host.call_tool(name, arguments)
        return rendered_app.of_call(tools[name], resources.get(uri, {}), resource, result)

    def _app_host(self) -> Client:
        """A client like this one, which shows views."""
        extensions = self._capabilities.get("extensions", {})
        if metadata.EXTENSION in extensions:
            return self
        shown = {**extensions, **metadata.CAPABILITY["extensions"]}
        options = {**self._options, "capabilities": {**self._capabilities, "extensions": shown}}
        facts = self.connection.facts
        if facts.principal is not None:
            options |= {"user": facts.principal.user, "scopes": facts.principal.scopes}
        host = type(self)(self.server, session=facts.session, **options)
        self._others.append(host)
        return host

    async def complete(
        self,
        ref: Json | str,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the completions of an argument: ``values``, ``total`` and ``hasMore``.

        ``ref`` is the name of a prompt, a URI or a template.
        """
        if isinstance(ref, str):
            kind = {"type": "ref/resource", "uri": ref}
            ref = kind if ":" in ref else {"type": "ref/prompt", "name": ref}
        params: Message = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self.request("completion/complete", params)
        return cast("dict[str, Any]", result["completion"])

    async def request(
        self, method: str, params: Json | None = None, *, meta: Json | None = None
    ) -> CallResult:
        """Return the result of any request; raises ErrorResponse.

        While the result requires input, the request is sent again with the responses.
        """
        await self.open()
        sent: Message = dict(params or {})
        began = self._position()
        for _ in range(MAX_ATTEMPTS):
            result = await self._call(method, sent, meta)
            if result.get("resultType") != "input_required":
                return CallResult(result, **self._since(began))
            sent = {**sent, **await self._answers.retry_params(result)}
        problems = problems_of(result.get("inputRequests", {}), sent["inputResponses"])
        raise AssertionError(
            "\n".join([f"{method} still requires input after {MAX_ATTEMPTS} attempts", *problems])
        )

    async def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        await self.open()
        with self._threads():
            await self.connection.notify(jsonrpc.notification(method, params))

    async def send(self, data: bytes | Any) -> dict[str, Any] | None:
        """Send bytes or any JSON value without changes, and return the response or None."""
        await self.open()
        raw = data if isinstance(data, bytes) else jsonrpc.encode(data)
        async with asyncio.timeout(self._timeout):
            with self._threads():
                response = await self.connection.send(raw)
        self._validate(response, data.get("method") if isinstance(data, dict) else None)
        return response

    def message(
        self, method: str, params: Json | None = None, *, meta: Json | None = None
    ) -> dict[str, Any]:
        """Return a request as this client sends it, for a test that modifies it."""
        request_id = next(self._ids)
        meta = {**self._meta(method, request_id), **(meta or {})}
        with_meta = {"_meta": meta} if meta else {}
        return jsonrpc.request(request_id, method, {**(params or {}), **with_meta})

    # Assertions.

    async def assert_tool_visible(self, name: str) -> None:
        """Fail unless the tool is listed to this client."""
        names = [tool["name"] for tool in await self.list_tools()]
        if name not in names:
            raise AssertionError(f"The tool {name!r} is not listed. These are: {names}")

    async def assert_tool_hidden(self, name: str) -> None:
        """Fail if the tool is listed to this client, or if a call tells it from an unknown one."""
        if name in [tool["name"] for tool in await self.list_tools()]:
            raise AssertionError(f"The tool {name!r} is listed")
        result = await self.call(name)
        unknown = await self.call(f"{name}{UNKNOWN_SUFFIX}")
        if result.text.replace(name, "") != unknown.text.replace(f"{name}{UNKNOWN_SUFFIX}", ""):
            raise AssertionError(f"The tool {name!r} is not listed, but it answers: {result.text}")

    async def assert_catalogue(self, path: str | PathLike[str]) -> None:
        """Fail if the lists of this client differ from the file at ``path``.

        With the environment variable MCP_UPDATE_SNAPSHOTS, the file is written.
        """
        listed: dict[str, list[dict[str, Any]]] = {}
        for method, member in CATALOGUE.items():
            try:
                listed[member] = await self._list(method, member)
            except ErrorResponse as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
        catalogue.assert_unchanged(listed, path)

    # Notifications and input requests.

    @asynccontextmanager
    async def listen(
        self, *uris: str, tasks: Sequence[str] = (), **of_extensions: Sequence[str]
    ) -> AsyncIterator[Self]:
        """Receive change notifications within the block: of all lists, and of resources by URI.

        ``tasks`` are ids of the tasks extension: their notifications are received as well. Other
        keywords are members of the filter that other extensions define. Notifications are sent
        asynchronously: use ``wait_for`` to receive one.
        """
        if tasks:
            of_extensions["taskIds"] = tasks
        await self.open()
        ready = asyncio.Event()
        task = asyncio.ensure_future(self._listen(uris, ready, of_extensions))
        task.add_done_callback(lambda _: ready.set())
        try:
            async with asyncio.timeout(self._timeout):
                await ready.wait()
            if task.done():
                task.result()
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self, uris: Sequence[str], ready: asyncio.Event, of_extensions: Json) -> None:
        with self._threads():
            if self.revision.has(Feature.LISTEN_STREAMS):
                self._acknowledged = ready
                wanted = {**LISTS, "resourceSubscriptions": [*uris], **of_extensions}
                message = self.message("subscriptions/listen", {"notifications": wanted})
                await self.connection.request(message)
            else:
                for uri in uris:
                    await self.request("resources/subscribe", {"uri": uri})
                await self.connection.listen(ready.set)

    async def wait_for(self, method: str) -> dict[str, Any]:
        """Return the parameters of the next notification of this method, once it is received."""
        async with asyncio.timeout(self._timeout):
            return await self._arrivals.next(method)

    @property
    def session_id(self) -> str | None:
        """The id of the session, if the transport has one."""
        return self.connection.session_id

    def receive_notification(self, message: Message) -> None:
        """Store a notification of the server; called by the connection."""
        self.notifications.append(message)
        self._exchange.append(message)
        self._arrivals.note()
        if message["method"] == "notifications/subscriptions/acknowledged":
            self._acknowledged.set()
        self._violations.look_at(self.revision, message, None)

    async def answer_request(self, message: Message) -> Message:
        """Return the response to a request of the server; called by the connection."""
        self._violations.look_at(self.revision, message, None)
        self._exchange.append(message)
        try:
            response = jsonrpc.result(message["id"], await self._answers.answer(message))
        except McpError as error:
            described = {"code": error.code or -32603, "message": error.message}
            response = jsonrpc.error(message["id"], described)
        self._exchange.append(response)
        return response

    # The steps of a request.

    async def _list(self, method: str, member: str) -> list[dict[str, Any]]:
        page = await self.request(method)
        items = [*page[member]]
        while "nextCursor" in page:
            page = await self.request(method, {"cursor": page["nextCursor"]})
            items += page[member]
        return items

    def _position(self) -> tuple[int, int]:
        return len(self._exchange), len(self._queries)

    def _since(self, began: tuple[int, int]) -> dict[str, Any]:
        """The messages and queries since a position."""
        messages, queries = began
        return {"exchange": self._exchange[messages:], "queries": self._queries[queries:]}

    async def _call(self, method: str, params: Message, meta: Json | None) -> CallResult:
        message = self.message(method, params, meta=meta)
        self._unexpected.pop(message["id"], None)  # Of a message of ``send`` with the same id.
        self._exchange.append(message)
        async with asyncio.timeout(self._timeout):
            with self._threads():
                response = await self.connection.request(message)
        self._exchange.append(response)
        self._validate(response, method)
        unexpected = self._unexpected.pop(message["id"], None)
        is_error = "error" in response
        is_failure = is_error or response["result"].get("isError") is True
        if unexpected is not None and self.raise_exceptions and is_failure:
            raise unexpected
        if is_error:
            raise ErrorResponse(response["error"], status=self.connection.status)
        assert response["id"] == message["id"], response
        return CallResult(response["result"])

    def _meta(self, method: str, request_id: int) -> Message:
        """The progress token and, without a session, the metadata of a stateless request."""
        if method == "initialize":
            return {}
        if self.revision.statefulness is Statefulness.SESSION:
            return {"progressToken": request_id}
        level = {} if self._log_level is None else {request_meta.LOG_LEVEL: self._log_level}
        return {
            request_meta.VERSION: self.revision.version,
            request_meta.CAPABILITIES: dict(self._capabilities),
            request_meta.CLIENT_INFO: CLIENT_INFO,
            "progressToken": request_id,
            **level,
        }

    def _validate(self, response: Message | None, method: str | None) -> None:
        """Raise the error that a check has found in the response, or in a message before it."""
        if response is not None:
            self._violations.look_at(self.revision, response, method)
        self._violations.raise_first()

    def _note_unexpected(self, frame: Frame, error: BaseException) -> None:
        """Store an exception of a handler until its request completes."""
        # All clients of a server are told, and each of them counts its messages from 1.
        if _calling.get() in (None, self):
            self._unexpected[frame.message.id] = error

    @contextmanager
    def _threads(self) -> Iterator[None]:
        is_sensitive = self._sync_execution == "thread_sensitive"
        token = call_records.is_recorded.set(self.records_calls)
        calling = _calling.set(self)
        try:
            threads = pools.thread_sensitive() if is_sensitive else nullcontext()
            with threads, queries.recorded(self._queries):
                yield
        finally:
            _calling.reset(calling)
            call_records.is_recorded.reset(token)


_calling: ContextVar[Client | None] = ContextVar("django_mcp.calling", default=None)
"""The client whose messages are answered in this context."""


def _principal(user: Any, scopes: frozenset[str]) -> Principal | None:
    if user is None and not scopes:
        return None
    user = AnonymousUser() if user is None else user
    subject = "" if user.pk is None else str(user.pk)
    return Principal(scheme="test", subject=subject, user=user, scopes=scopes)
