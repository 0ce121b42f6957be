"""The test client for synchronous tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from asgiref.sync import async_to_sync

from django_mcp.core.server.server import Server
from django_mcp.testing.client import Client
from django_mcp.testing.received import ReceivedNotifications

P = ParamSpec("P")
T = TypeVar("T")


def _twin(
    method: Callable[Concatenate[Client, P], Awaitable[T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    @wraps(method)
    def twin(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return async_to_sync(method)(self.client, *args, **kwargs)

    return twin


class SyncClient(ReceivedNotifications):
    """The client for synchronous tests, such as Django's TestCase; not over stdio.

    It takes the arguments of ``Client``, which is its attribute ``client``.
    """

    def __init__(self, server: Server | str | None = None, **options: Any) -> None:
        if options.get("transport") == "stdio":
            raise ValueError(
                "stdio needs one event loop for all calls: use Client in an async test"
            )
        self.client = Client(server, **options)
        self.notifications = self.client.notifications

    def as_user(self, user: Any, *, scopes: Iterable[str] = ()) -> SyncClient:
        """Return a client like this one, of another user; it is closed with this one."""
        other = copy(self)
        other.client = self.client.as_user(user, scopes=scopes)
        other.notifications = other.client.notifications
        return other

    def __enter__(self) -> Self:
        async_to_sync(self.client.__aenter__)()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    open = _twin(Client.open)
    close = _twin(Client.close)
    list_tools = _twin(Client.list_tools)
    list_resources = _twin(Client.list_resources)
    list_resource_templates = _twin(Client.list_resource_templates)
    list_prompts = _twin(Client.list_prompts)
    call = _twin(Client.call)
    call_tool = _twin(Client.call_tool)
    read_resource = _twin(Client.read_resource)
    get_prompt = _twin(Client.get_prompt)
    render_app = _twin(Client.render_app)
    complete = _twin(Client.complete)
    request = _twin(Client.request)
    notify = _twin(Client.notify)
    send = _twin(Client.send)
    assert_tool_visible = _twin(Client.assert_tool_visible)
    assert_tool_hidden = _twin(Client.assert_tool_hidden)
    assert_catalogue = _twin(Client.assert_catalogue)
