"""The methods of a Server for calls of the site, the interface that carries them out, and twins.

Twins are the two spellings of a public method: ``call_tool`` for sync code, ``acall_tool`` for
async.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
)

from django_mcp.core.ports import Port

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.server.server import Server

P = ParamSpec("P")
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
        if isinstance(ref, str):
            is_uri = ":" in ref
            kind = "ref/resource" if is_uri else "ref/prompt"
            ref = {"type": kind, "uri" if is_uri else "name": ref}
        params = {
            "ref": dict(ref),
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


class Twins:
    """Derives both spellings from a coroutine method of the server's attribute ``part``.

    ``run`` is the method of the part which runs the coroutine for synchronous code.
    """

    def __init__(self, part: str, run: Callable[[Any, Callable[[], Any]], Any]) -> None:
        self._part = part
        self._run = run

    def of(
        self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
    ) -> tuple[
        Callable[Concatenate[Any, P], T], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
    ]:
        """Return the sync and the async method; the docstring of the second names the first."""
        name = self._part
        run = self._run

        def synchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
            part = getattr(server, name)
            result: T = run(part, partial(method, part, *args, **kwargs))
            return result

        async def asynchronous(server: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await method(getattr(server, name), *args, **kwargs)

        update_wrapper(synchronous, method)
        update_wrapper(asynchronous, method)
        asynchronous.__name__ = f"a{method.__name__}"
        asynchronous.__doc__ = f"``{method.__name__}`` for asynchronous code."
        return synchronous, asynchronous
