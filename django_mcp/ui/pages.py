"""The pages of views as resources: each server with a tool that has a view has its page.

Whoever may use one of the tools may read the page, and nobody else knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from django_mcp.core.auth import permissions
from django_mcp.core.components.base import Component, ConfigurationError, Permission
from django_mcp.core.components.resource import ResourceComponent, resource_component
from django_mcp.core.components.responses import ResourceResponse
from django_mcp.core.components.signature import is_async
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.frame.frame import Frame
from django_mcp.ui.base import View, view_of
from django_mcp.ui.mcp_apps.metadata import MIME_TYPE

if TYPE_CHECKING:
    from django_mcp.core.server.server import Server


def add_page(server: Server, component: Component) -> None:
    """Add the page of a tool's view to the server that was given the tool."""
    view = view_of(component)
    if view is None or not isinstance(component, ToolComponent):
        return
    present = server.components.registered_at(ResourceComponent.kind, view.uri)
    if present is None:
        page = replace(
            page_of(view),
            permission=component.permission,
            scopes=component.scopes,
            when_denied=component.when_denied,
            group=component.group,
            module=component.module,
            find_line=component.find_line,
        )
        server.components.add(page)
        return
    versions: Any = getattr(present, "versions", None)
    if versions is not view:
        raise ConfigurationError(
            f"{component.source} has the view {view.uri}, and {present.source} another one there: "
            "give one of them another uri, or use one view for both"
        )
    widened = _widened(present, component)
    if widened is not present:
        server.components.remove(ResourceComponent.kind, view.uri)
        server.components.add(widened)


def page_of(view: View) -> ResourceComponent:
    """Return the page of a view as a resource."""

    def read(uri: str, frame: Frame) -> ResourceResponse:
        client = frame.get_client_info() or {}
        meta = view.policy.to_meta(str(client.get("name", "")))
        contents = {"text": view.page(), "mime_type": MIME_TYPE}
        return ResourceResponse(contents=contents, members={"_meta": meta} if meta else {})

    component = resource_component(
        read,
        view.uri,
        name=view.uri.rpartition("/")[2],
        title=view.title,
        description="A view of tools, for hosts that render MCP Apps.",
        mime_type=MIME_TYPE,
        # Lists are the same for all hosts: a domain that differs is in the contents.
        meta=view.policy.to_meta() or None,
    )
    assert isinstance(component, ResourceComponent)
    return replace(component, versions=view)


def _widened(page: Component, tool: ToolComponent) -> Component:
    """Return the page for the callers of one more tool."""
    has_same_group = page.group == tool.group
    permission = _either(page.permission, tool.permission)
    scopes = page.scopes & tool.scopes
    if permission == page.permission and scopes == page.scopes and has_same_group:
        return page
    return replace(
        page,
        permission=permission,
        scopes=scopes,
        group=page.group if has_same_group else None,
        is_in_every_selection=page.is_in_every_selection or not has_same_group,
    )


def _either(first: Permission | None, second: Permission | None) -> Permission | None:
    if first is None or second is None:
        return None
    alternatives = first.permissions if isinstance(first, AnyPermission) else (first,)
    if second in alternatives:
        return first
    return AnyPermission((*alternatives, second))


@dataclass(frozen=True)
class AnyPermission:
    """The permission of whoever has one of several; one that raises refuses, as by itself."""

    permissions: tuple[Permission, ...]

    def __call__(self, frame: Frame) -> bool | Awaitable[bool]:
        # Coroutines are made last: those that nobody needs would not be awaited.
        awaitables: list[Awaitable[bool]] = []
        errors: list[Exception] = []
        for permission in sorted(self.permissions, key=_is_coroutine_function):
            try:
                answer = _answer(permission, frame)
            except Exception as error:
                errors.append(error)
                continue
            if isawaitable(answer):
                awaitables.append(answer)
            elif answer:
                return True
        if awaitables:
            return _any(awaitables, errors)
        if errors:
            raise errors[0]
        return False

    def __str__(self) -> str:
        return " or ".join(map(str, self.permissions))


def _is_coroutine_function(permission: Permission) -> bool:
    return callable(permission) and is_async(permission)


def _answer(permission: Permission, frame: Frame) -> bool | Awaitable[bool]:
    if isinstance(permission, str):
        return permissions.has(frame.user, permission)
    return permission(frame)


async def _any(awaitables: Iterable[Awaitable[bool]], errors: Iterable[Exception]) -> bool:
    answers = await asyncio.gather(*awaitables, return_exceptions=True)
    if any(answer for answer in answers if not isinstance(answer, BaseException)):
        return True
    raised = [*errors, *(answer for answer in answers if isinstance(answer, BaseException))]
    if raised:
        raise raised[0]
    return False
