"""The methods of a Server for calls of the site, and the interface that carries them out."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, Unpack

from django_mcp.core.ports import Port

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.server.server import Server

T = TypeVar("T")


class CallOptions(TypedDict, total=False):
    """The caller of a call; see InProcessCalls."""

    user: Any
    scopes: Iterable[str]
    frame: Frame | None


class InProcessCaller(Protocol):
    async def call(
        self,
        server: Server,
        method: str,
        params: dict[str, Any],
        *,
        user: Any,
        scopes: Iterable[str],
        frame: Frame | None,
    ) -> dict[str, Any]:
        """Return the result of a method in the newest revision with sessions; raises McpError."""

    async def handle(
        self, server: Server, message: Json, *, user: Any, scopes: Iterable[str]
    ) -> dict[str, Any] | None: ...

    def frame(self, server: Server, client_info: Json, capabilities: Json, *, user: Any) -> Frame:
        """Return the Frame of a client without a session."""

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...


CALLER: Port[InProcessCaller] = Port("calls a Server in process")


class InProcessCalls:
    """The calls of one server by the site's own code.

    ``user`` is the caller, by default an anonymous one, and ``scopes`` are those of an access
    token. Hidden components do not exist; challenged ones raise AuthenticationRequired or
    InsufficientScope. With ``frame``, a handler calls with its own caller, assigns and client. A
    failing tool returns a result with ``isError``; an McpError is raised. The methods without ``a``
    run synchronous handlers on their own thread, in their own transaction.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    async def call_tool(
        self, name: str, arguments: Json | None = None, **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        """Return the result of a tool."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self._call("tools/call", params, **options)

    async def read_resource(self, uri: str, **options: Unpack[CallOptions]) -> dict[str, Any]:
        """Return the contents of a resource."""
        return await self._call("resources/read", {"uri": uri}, **options)

    async def get_prompt(
        self, name: str, arguments: Json | None = None, **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        """Return the messages of a prompt."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self._call("prompts/get", params, **options)

    async def complete(
        self,
        ref: Json | str,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Return the suggestions for an argument: ``values``, ``total`` and ``hasMore``.

        ``ref`` is the name of a prompt, a URI, a template, or a reference object of the protocol.
        """
        params = {
            "ref": _reference(ref),
            "argument": {"name": argument, "value": value},
            "context": {"arguments": dict(context or {})},
        }
        result = await self._call("completion/complete", params, **options)
        completion: dict[str, Any] = result["completion"]
        return completion

    async def list_tools(self, **options: Unpack[CallOptions]) -> list[dict[str, Any]]:
        """Return every tool that the caller may see, as it is listed."""
        return await self._list("tools/list", "tools", **options)

    async def list_resources(self, **options: Unpack[CallOptions]) -> list[dict[str, Any]]:
        """Return every resource that the caller may see, as it is listed."""
        return await self._list("resources/list", "resources", **options)

    async def list_resource_templates(self, **options: Unpack[CallOptions]) -> list[dict[str, Any]]:
        """Return every resource template that the caller may see, as it is listed."""
        return await self._list("resources/templates/list", "resourceTemplates", **options)

    async def list_prompts(self, **options: Unpack[CallOptions]) -> list[dict[str, Any]]:
        """Return every prompt that the caller may see, as it is listed."""
        return await self._list("prompts/list", "prompts", **options)

    async def handle(
        self, message: Json, *, user: Any = None, scopes: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """Return the response to a JSON-RPC message, also an error; None for a notification.

        The default protocol version is the newest one with sessions. No ``initialize`` is needed,
        and no notifications are sent.
        """
        return await self.port.handle(self._server, message, user=user, scopes=scopes)

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.port.wait(function)

    async def _list(
        self, method: str, member: str, **options: Unpack[CallOptions]
    ) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self._call(method, {}, **options))[member]
        return listed

    async def _call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        user: Any = None,
        scopes: Iterable[str] = (),
        frame: Frame | None = None,
    ) -> dict[str, Any]:
        port = self.port
        server = self._server
        return await port.call(server, method, params, user=user, scopes=scopes, frame=frame)

    @property
    def port(self) -> InProcessCaller:
        return CALLER.get()


def _reference(ref: Json | str) -> dict[str, Any]:
    if not isinstance(ref, str):
        return dict(ref)
    if ":" in ref:
        return {"type": "ref/resource", "uri": ref}
    return {"type": "ref/prompt", "name": ref}
