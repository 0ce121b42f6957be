"""A client for the tests of your own server: any revision, any user, without a network.

    async with Client(server, user=user) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

It answers the server's questions with what the test gave it, and collects what the server says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, nullcontext
from functools import update_wrapper
from inspect import isawaitable
from itertools import count
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser

from django_mcp import registry
from django_mcp.auth.base import Principal
from django_mcp.protocol import jsonrpc, request_meta
from django_mcp.protocol.errors import Json, McpError
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Revision, Statefulness
from django_mcp.runtime import threads
from django_mcp.server.server import Server
from django_mcp.testing import spec_schemas, strictness
from django_mcp.testing.asgi import PATIENCE, Message
from django_mcp.testing.connections import CONNECTIONS, Facts

P = ParamSpec("P")
T = TypeVar("T")

Answer = Json | Callable[[dict[str, Any]], Json | Awaitable[Json]]
"""How a question is answered: with a result, or by a function of its parameters."""
Transport = Literal["memory", "http", "stdio"]

ROUNDS = 10
"""How often a server may ask before it answers."""


class ErrorResponse(McpError):
    """The server answered with an error: ``code``, ``message`` and ``data`` as they came.

    ``status`` is the HTTP status, where there is one.
    """

    def __init__(self, error: Json, *, status: int | None = None) -> None:
        super().__init__(error["message"], code=error["code"], data=error.get("data"))
        self.status = status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Client:
    """One client of one server.

    ``server`` is a Server, the name of one, or None for the site's default one. ``version`` is
    that of the protocol; by default the newest. ``user`` is the Django user who calls, ``scopes``
    what her access token allows; over HTTP the server's own authenticators decide when neither is
    given. ``elicitation``, ``sampling`` and ``roots`` answer its questions: a result, or a
    function of the question's parameters; what is given is declared as a capability.

    ``notifications`` holds what the server said, ``progress`` and ``logs`` the parameters of
    some of it. Synchronous handlers run on the test's own thread, where Django's TestCase has
    its transaction; ``sync_execution="threads"`` runs them side by side, as in production. While
    the client is open, what the server sends is checked as with the setting VALIDATION, unless
    that is "off" here.
    """

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
        timeout: float = PATIENCE,
        sync_execution: Literal["thread_sensitive", "threads"] = "thread_sensitive",
        validation: Literal["off", "strict"] = "strict",
    ) -> None:
        self.server = registry.configure(_server(server))
        self.revision: Revision = NEWEST if version is None else BY_VERSION[version]
        self.notifications: list[Message] = []
        self.welcome: dict[str, Any] = {}
        """What the server answered to ``initialize``; empty where nothing is initialized."""
        self._answers = _answers(elicitation, sampling, roots)
        self._capabilities = _capabilities(self._answers) if capabilities is None else capabilities
        self._log_level = log_level
        self._timeout = timeout
        self._sync_handlers = sync_execution
        self._is_strict = validation == "strict"
        self._ids = count(1)
        self._problems: list[AssertionError] = []
        self._is_open = False
        self._news = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._awaited: Counter[str] = Counter()
        facts = Facts(
            server=self.server,
            principal=_principal(user, frozenset(scopes)),
            headers=headers or {},
            query=query,
            session=session,
        )
        self.connection = CONNECTIONS[transport](facts, self)
        # To configure a server, or to mount it, gives it the site's settings.
        strictness.renew(self.server)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Coming and going.

    async def open(self) -> None:
        """Open the conversation; the first call would do so by itself."""
        if self._is_open:
            return
        await self.connect()
        if self.revision.statefulness is Statefulness.SESSION:
            await self._initialize()

    async def connect(self) -> None:
        """Open the connection and say nothing yet: for tests of the handshake itself."""
        self._is_open = True
        strictness.wish(self.server, id(self), strict=self._is_strict)
        with self._threads():
            await self.connection.open()

    async def close(self) -> None:
        """End the conversation, and with it the session."""
        if self._is_open:
            self._is_open = False
            try:
                with self._threads():
                    await self.connection.close()
            finally:
                strictness.withdraw(self.server, id(self))

    async def _initialize(self) -> None:
        params = {
            "protocolVersion": self.revision.version,
            "capabilities": dict(self._capabilities),
            "clientInfo": CLIENT_INFO,
        }
        self.welcome = await self.request("initialize", params)
        self.revision = BY_VERSION[self.welcome["protocolVersion"]]
        await self.notify("notifications/initialized")
        if self._log_level is not None and "logging" in self.welcome["capabilities"]:
            await self.request("logging/setLevel", {"level": self._log_level})

    # Calling.

    async def list_tools(self) -> list[dict[str, Any]]:
        """Every tool, from all pages."""
        return await self._list("tools/list", "tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Every resource, from all pages."""
        return await self._list("resources/list", "resources")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Every resource template, from all pages."""
        return await self._list("resources/templates/list", "resourceTemplates")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Every prompt, from all pages."""
        return await self._list("prompts/list", "prompts")

    async def call_tool(
        self, name: str, arguments: Json | None = None, *, meta: Json | None = None
    ) -> dict[str, Any]:
        """The result of a call, also when the tool says that it failed (``isError``)."""
        return await self.request(
            "tools/call", {"name": name, "arguments": dict(arguments or {})}, meta=meta
        )

    async def read_resource(self, uri: str, *, meta: Json | None = None) -> dict[str, Any]:
        """The contents of a resource."""
        return await self.request("resources/read", {"uri": uri}, meta=meta)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, meta: Json | None = None
    ) -> dict[str, Any]:
        """The messages of a prompt."""
        return await self.request(
            "prompts/get", {"name": name, "arguments": dict(arguments or {})}, meta=meta
        )

    async def complete(
        self,
        ref: Json | str,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """What is proposed for an argument: its ``values``, ``total`` and ``hasMore``.

        ``ref`` names a prompt or, when it has a colon, a resource or a template.
        """
        if isinstance(ref, str):
            kind = {"type": "ref/resource", "uri": ref}
            ref = kind if ":" in ref else {"type": "ref/prompt", "name": ref}
        params: Message = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        completion: dict[str, Any] = (await self.request("completion/complete", params))[
            "completion"
        ]
        return completion

    async def request(
        self, method: str, params: Json | None = None, *, meta: Json | None = None
    ) -> dict[str, Any]:
        """The result of any request; raises ErrorResponse.

        Where the server asks back before it answers, it is answered and called again.
        """
        await self.open()
        asked: Message = dict(params or {})
        for _ in range(ROUNDS):
            result = await self._call(method, asked, meta)
            if result.get("resultType") != "input_required":
                return result
            asked = {**asked, **await self._replies(result)}
        raise AssertionError(f"{method} was not answered in {ROUNDS} rounds")

    async def notify(self, method: str, params: Json | None = None) -> None:
        """Say something that is not answered."""
        await self.open()
        with self._threads():
            await self.connection.notify(jsonrpc.notification(method, params))

    async def send(self, data: bytes | Any) -> dict[str, Any] | None:
        """Send a message as it is, however wrong: bytes, or what JSON can say.

        What the server answers, an error included, or None when it answers nothing.
        """
        await self.open()
        raw = data if isinstance(data, bytes) else jsonrpc.encode(data)
        async with asyncio.timeout(self._timeout):
            with self._threads():
                answer = await self.connection.send(raw)
        method = data.get("method") if isinstance(data, dict) else None
        self._check(answer, method)
        return answer

    def message(
        self, method: str, params: Json | None = None, *, meta: Json | None = None
    ) -> dict[str, Any]:
        """A request as this client would send it, to be spoilt before it is sent."""
        identity = next(self._ids)
        told = {**self._meta(method, identity), **(meta or {})}
        described = {"_meta": told} if told else {}
        return jsonrpc.request(identity, method, {**(params or {}), **described})

    # Hearing.

    @asynccontextmanager
    async def listening(self, *uris: str) -> AsyncIterator[Self]:
        """Hear, within the block, of changes: of all lists, and of the resources at ``uris``.

        What is announced comes at its own time: await ``until`` to see it.
        """
        await self.open()
        ready = asyncio.Event()
        task = asyncio.ensure_future(self._listen(uris, ready))
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

    async def _listen(self, uris: Sequence[str], ready: asyncio.Event) -> None:
        with self._threads():
            if self.revision.has(Feature.LISTEN_STREAMS):
                self._acknowledged = ready
                wanted = {**EVERY_LIST, "resourceSubscriptions": [*uris]}
                message = self.message("subscriptions/listen", {"notifications": wanted})
                await self.connection.request(message)
            else:
                for uri in uris:
                    await self.request("resources/subscribe", {"uri": uri})
                await self.connection.listen(ready.set)

    async def until(self, method: str) -> dict[str, Any]:
        """The parameters of the next notification of this method; waits for it to come."""
        number = self._awaited[method]
        self._awaited[method] += 1
        async with asyncio.timeout(self._timeout):
            while len(heard := self._heard(method)) <= number:
                self._news.clear()
                await self._news.wait()
        return heard[number]

    @property
    def progress(self) -> list[dict[str, Any]]:
        """How far the server said that its work had come."""
        return self._heard("notifications/progress")

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The log messages of the server."""
        return self._heard("notifications/message")

    @property
    def session_id(self) -> str | None:
        """The id of the session, where there is one and its transport names it."""
        return self.connection.session_id

    def heard(self, message: Message) -> None:
        """Take a notification of the server; the connection calls this."""
        self.notifications.append(message)
        self._news.set()
        if message["method"] == "notifications/subscriptions/acknowledged":
            self._acknowledged.set()
        self._note_misfit(message, None)

    async def asked(self, message: Message) -> Message:
        """Answer a request of the server; the connection calls this."""
        self._note_misfit(message, None)
        try:
            result = await self._reply(message["method"], message.get("params", {}))
        except McpError as error:
            refused = {"code": error.code or -32603, "message": error.message}
            return jsonrpc.error(message["id"], refused)
        return jsonrpc.result(message["id"], result)

    def _heard(self, method: str) -> list[dict[str, Any]]:
        return [each.get("params", {}) for each in self.notifications if each["method"] == method]

    # The steps of a request.

    async def _list(self, method: str, member: str) -> list[dict[str, Any]]:
        page = await self.request(method)
        listed: list[dict[str, Any]] = page[member]
        while "nextCursor" in page:
            page = await self.request(method, {"cursor": page["nextCursor"]})
            listed = [*listed, *page[member]]
        return listed

    async def _call(self, method: str, params: Message, meta: Json | None) -> dict[str, Any]:
        message = self.message(method, params, meta=meta)
        async with asyncio.timeout(self._timeout):
            with self._threads():
                answer = await self.connection.request(message)
        self._check(answer, method)
        if "error" in answer:
            raise ErrorResponse(answer["error"], status=self.connection.status)
        assert answer["id"] == message["id"], answer
        result: dict[str, Any] = answer["result"]
        return result

    def _meta(self, method: str, identity: int) -> Message:
        """What a request says of itself: its progress token and, without a session, the rest."""
        if method == "initialize":
            return {}
        if self.revision.statefulness is Statefulness.SESSION:
            return {"progressToken": identity}
        told = {
            request_meta.VERSION: self.revision.version,
            request_meta.CAPABILITIES: dict(self._capabilities),
            request_meta.CLIENT_INFO: CLIENT_INFO,
            "progressToken": identity,
        }
        return (
            told if self._log_level is None else {**told, request_meta.LOG_LEVEL: self._log_level}
        )

    async def _replies(self, result: Json) -> Message:
        """The answers with which the server wants to be called again."""
        responses = {
            name: await self._reply(question["method"], question.get("params", {}))
            for name, question in result.get("inputRequests", {}).items()
        }
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {"inputResponses": responses, **state}

    async def _reply(self, method: str, params: Message) -> Json:
        if method == "ping":
            return {}
        if method not in self._answers:
            raise McpError(f"This client was given no answer to {method}", code=-32601)
        answer = self._answers[method]
        given = answer(params) if callable(answer) else answer
        return await given if isawaitable(given) else given

    def _check(self, answer: Message | None, method: str | None) -> None:
        """Raise Unofficial when the answer, or what came before it, is not of its revision."""
        if answer is not None:
            self._note_misfit(answer, method)
        if self._problems:
            raise self._problems.pop(0)

    def _note_misfit(self, message: Message, method: str | None) -> None:
        """Remember, for whoever waits for the answer, what does not fit the official schema."""
        try:
            spec_schemas.check(self.revision, message, method)
        except spec_schemas.Unofficial as problem:
            self._problems.append(problem)

    def _threads(self) -> Any:
        """The threads on which synchronous handlers run."""
        return threads.thread_sensitive() if self._is_sensitive() else nullcontext()

    def _is_sensitive(self) -> bool:
        return self._sync_handlers == "thread_sensitive"


EVERY_LIST = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
"""What a client may listen to beside the changes of single resources."""

CLIENT_INFO = {"name": "django-mcp-test-client", "version": "1"}


def accept(**content: Any) -> Json:
    """The answer of a user who fills a form in, or goes to a page."""
    return {"action": "accept", "content": content} if content else {"action": "accept"}


def decline() -> Json:
    """The answer of a user who does not want to."""
    return {"action": "decline"}


def cancel() -> Json:
    """The answer of a user who closes the question."""
    return {"action": "cancel"}


def _server(server: Server | str | None) -> Server:
    if server is None:
        return registry.default
    return registry.get(server) if isinstance(server, str) else server


def _principal(user: Any, scopes: frozenset[str]) -> Principal | None:
    if user is None and not scopes:
        return None
    subject = "" if user is None or user.pk is None else str(user.pk)
    caller = AnonymousUser() if user is None else user
    return Principal(scheme="test", subject=subject, user=caller, scopes=scopes)


def _answers(
    elicitation: Answer | None, sampling: Answer | None, roots: Answer | Sequence[Json] | None
) -> dict[str, Answer]:
    listed = {"roots": [*roots]} if isinstance(roots, Sequence) else roots
    given = {
        "elicitation/create": elicitation,
        "sampling/createMessage": sampling,
        "roots/list": listed,
    }
    return {method: answer for method, answer in given.items() if answer is not None}


def _capabilities(answers: Mapping[str, Answer]) -> Message:
    """What a client can do that has these answers."""
    return {name: flags for method, (name, flags) in DECLARED.items() if method in answers}


DECLARED: Mapping[str, tuple[str, Json]] = {
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
    "sampling/createMessage": ("sampling", {}),
    "roots/list": ("roots", {}),
}


def _twin(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """The same method for callers without an event loop."""

    def twin(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return async_to_sync(method)(self.client, *args, **kwargs)

    update_wrapper(twin, method)
    return twin


class SyncClient:
    """The same client for synchronous tests, such as Django's TestCase; not over stdio.

    Made like a Client, which is its ``client``.
    """

    def __init__(self, server: Server | str | None = None, **options: Any) -> None:
        if options.get("transport") == "stdio":
            raise ValueError("A pipe needs an event loop that goes on: use Client in an async test")
        self.client = Client(server, **options)

    def __enter__(self) -> Self:
        async_to_sync(self.client.__aenter__)()
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    open = _twin(Client.open)
    close = _twin(Client.close)
    list_tools = _twin(Client.list_tools)
    list_resources = _twin(Client.list_resources)
    list_resource_templates = _twin(Client.list_resource_templates)
    list_prompts = _twin(Client.list_prompts)
    call_tool = _twin(Client.call_tool)
    read_resource = _twin(Client.read_resource)
    get_prompt = _twin(Client.get_prompt)
    complete = _twin(Client.complete)
    request = _twin(Client.request)
    notify = _twin(Client.notify)
    send = _twin(Client.send)

    @property
    def notifications(self) -> list[dict[str, Any]]:
        """What the server said without being asked."""
        return self.client.notifications

    @property
    def progress(self) -> list[dict[str, Any]]:
        """How far the server said that its work had come."""
        return self.client.progress

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The log messages of the server."""
        return self.client.logs
