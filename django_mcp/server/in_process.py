"""Calling a Server from the site itself: no client, no transport, no session.

Who carries such a call out is the business of ``local``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.errors import Json
    from django_mcp.server.server import Server

T = TypeVar("T")


class InProcessCaller(Protocol):
    """Carries calls out which a site makes of its own servers."""

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
        """The result of a method, as the newest revision with sessions has it; raises McpError."""
        ...

    async def handle(
        self, server: Server, message: Json, *, user: Any, scopes: Iterable[str]
    ) -> dict[str, Any] | None:
        """The response to a message, as it would travel."""
        ...

    def frame(self, server: Server, client_info: Json, capabilities: Json, *, user: Any) -> Frame:
        """The Frame of a client that never opened a session."""
        ...

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What an asynchronous function returns, for synchronous code."""
        ...


class InProcessCalls:
    """The part of a Server which answers the site's own code.

    ``user`` is the Django user in whose name is called, by default nobody in particular; what
    that user may not see does not exist. ``scopes`` are those of an access token. With
    ``frame``, a handler calls within the call that it answers: as the same caller, with the same
    assigns and client; what the called handler changed in its Frame is forgotten.

    A failing tool returns a result with ``isError``, an McpError is raised. The twin with ``a``
    is for asynchronous code; the one without runs synchronous handlers on its own thread, and
    so in its own transaction.
    """

    local: ClassVar[InProcessCaller | None] = None
    """Who carries it out; the app sets it when it is ready."""

    def call_tool(self, name: str, arguments: Json | None = None, **caller: Any) -> dict[str, Any]:
        """The result of a tool."""
        return self._wait(lambda: self.acall_tool(name, arguments, **caller))

    async def acall_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        user: Any = None,
        scopes: Iterable[str] = (),
        frame: Frame | None = None,
    ) -> dict[str, Any]:
        """``call_tool`` for asynchronous code."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self._call("tools/call", params, user=user, scopes=scopes, frame=frame)

    def read_resource(self, uri: str, **caller: Any) -> dict[str, Any]:
        """The contents of a resource."""
        return self._wait(lambda: self.aread_resource(uri, **caller))

    async def aread_resource(
        self,
        uri: str,
        *,
        user: Any = None,
        scopes: Iterable[str] = (),
        frame: Frame | None = None,
    ) -> dict[str, Any]:
        """``read_resource`` for asynchronous code."""
        return await self._call(
            "resources/read", {"uri": uri}, user=user, scopes=scopes, frame=frame
        )

    def get_prompt(self, name: str, arguments: Json | None = None, **caller: Any) -> dict[str, Any]:
        """The messages of a prompt."""
        return self._wait(lambda: self.aget_prompt(name, arguments, **caller))

    async def aget_prompt(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        user: Any = None,
        scopes: Iterable[str] = (),
        frame: Frame | None = None,
    ) -> dict[str, Any]:
        """``get_prompt`` for asynchronous code."""
        params = {"name": name, "arguments": dict(arguments or {})}
        return await self._call("prompts/get", params, user=user, scopes=scopes, frame=frame)

    def complete(
        self, ref: Json | str, argument: str, value: str = "", **options: Any
    ) -> dict[str, Any]:
        """What is suggested for an argument: ``values``, ``total`` and ``hasMore``.

        ``ref`` is the name of a prompt, the URI of a resource or a template, or as it travels.
        """
        return self._wait(lambda: self.acomplete(ref, argument, value, **options))

    async def acomplete(
        self,
        ref: Json | str,
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        user: Any = None,
        scopes: Iterable[str] = (),
        frame: Frame | None = None,
    ) -> dict[str, Any]:
        """``complete`` for asynchronous code."""
        params = {
            "ref": _reference(ref),
            "argument": {"name": argument, "value": value},
            "context": {"arguments": dict(context or {})},
        }
        result = await self._call(
            "completion/complete", params, user=user, scopes=scopes, frame=frame
        )
        completion: dict[str, Any] = result["completion"]
        return completion

    def list_tools(self, **caller: Any) -> list[dict[str, Any]]:
        """Every tool which the caller may see, as it is listed."""
        return self._wait(lambda: self.alist_tools(**caller))

    async def alist_tools(self, **caller: Any) -> list[dict[str, Any]]:
        """``list_tools`` for asynchronous code."""
        return await self._list("tools/list", "tools", **caller)

    def list_resources(self, **caller: Any) -> list[dict[str, Any]]:
        """Every resource which the caller may see, as it is listed."""
        return self._wait(lambda: self.alist_resources(**caller))

    async def alist_resources(self, **caller: Any) -> list[dict[str, Any]]:
        """``list_resources`` for asynchronous code."""
        return await self._list("resources/list", "resources", **caller)

    def list_resource_templates(self, **caller: Any) -> list[dict[str, Any]]:
        """Every resource template which the caller may see, as it is listed."""
        return self._wait(lambda: self.alist_resource_templates(**caller))

    async def alist_resource_templates(self, **caller: Any) -> list[dict[str, Any]]:
        """``list_resource_templates`` for asynchronous code."""
        return await self._list("resources/templates/list", "resourceTemplates", **caller)

    def list_prompts(self, **caller: Any) -> list[dict[str, Any]]:
        """Every prompt which the caller may see, as it is listed."""
        return self._wait(lambda: self.alist_prompts(**caller))

    async def alist_prompts(self, **caller: Any) -> list[dict[str, Any]]:
        """``list_prompts`` for asynchronous code."""
        return await self._list("prompts/list", "prompts", **caller)

    def handle(
        self, message: Json, *, user: Any = None, scopes: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """The response to a JSON-RPC message, also when it is an error; None for a notification.

        A message which says nothing of its revision is answered as the newest of those with a
        handshake has it, whether or not one came before. Nothing is announced.
        """
        return self._wait(lambda: self.ahandle(message, user=user, scopes=scopes))

    async def ahandle(
        self, message: Json, *, user: Any = None, scopes: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """``handle`` for asynchronous code."""
        return await self._port.handle(self._called, message, user=user, scopes=scopes)

    def handle_initialize(
        self, client_info: Json, capabilities: Json, *, user: Any = None
    ) -> Frame:
        """The Frame of a client of whom this is known, to be given as ``frame``.

        For wiring of one's own: no session is opened, no hook is called, nothing is announced.
        """
        return self._port.frame(self._called, client_info, capabilities, user=user)

    async def _list(self, method: str, member: str, **caller: Any) -> list[dict[str, Any]]:
        options = {"user": None, "scopes": (), "frame": None, **caller}
        listed: list[dict[str, Any]] = (await self._call(method, {}, **options))[member]
        return listed

    async def _call(self, method: str, params: dict[str, Any], **caller: Any) -> dict[str, Any]:
        return await self._port.call(self._called, method, params, **caller)

    def _wait(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._port.wait(function)

    @property
    def _port(self) -> InProcessCaller:
        if self.local is None:
            raise RuntimeError("Nothing can be called before Django is set up: django.setup()")
        return self.local

    @property
    def _called(self) -> Server:
        return self  # type: ignore[return-value]  # It is the part of one.


def _reference(ref: Json | str) -> dict[str, Any]:
    if not isinstance(ref, str):
        return dict(ref)
    if ":" in ref:
        return {"type": "ref/resource", "uri": ref}
    return {"type": "ref/prompt", "name": ref}
