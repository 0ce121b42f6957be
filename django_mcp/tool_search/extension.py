"""``find_tools`` and ``call_tool``, which a server with ``tool_search`` lists beside chosen tools.

A call of ``call_tool`` becomes a call of the tool that it names where its message is read, so that
permissions, validation, tasks, approvals, middleware and logs concern that tool alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from django_mcp.core.components.base import Component
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.protocol.jsonrpc import Request
from django_mcp.core.server.server import Server, server_of
from django_mcp.extensions import Extension
from django_mcp.tool_search.index import ToolIndexes

FIND = "find_tools"
CALL = "call_tool"
MAX_FOUND = 20
"""Definitions of tools in one result: each may have thousands of characters."""
SHOWN = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "execution",
)
"""The description of a tool for a model that may call it."""


async def find_tools(
    query: Annotated[
        str, Field(description="What you want to do, in a few words", min_length=1, max_length=500)
    ],
    frame: Frame,
    limit: Annotated[int, Field(description="The most tools to return", ge=1, le=MAX_FOUND)] = 5,
) -> dict[str, Any]:
    """Find tools of this server by words: most of them are not in the list of tools.

    Returns the names, descriptions and input schemas of the tools that fit best. Call one with
    call_tool.
    """
    components = frame.server.components
    await components.build()
    selected = components.in_order(ToolComponent.kind, frame.principal.selection)
    # A hidden tool must not change the ranks of others.
    tools = selected.listed
    if not selected.is_public:
        tools = await visibility.listed(frame, tools, len(tools))
    # In a thread: for thousands of tools, building the index takes a second.
    index = await frame.exchange.run_hook(server_of(frame).state(ToolIndexes).of, tools)
    matching: list[Component] = []
    for part in index.ranked(query):
        for tool in part:
            # A model does not find tools that only lead to others, or that views call.
            # It only leads to others, or is not for models.
            if not tool.is_in_every_selection and tool.is_for_models:
                matching.append(tool)
        if len(matching) >= limit:
            break
    described = [components.descriptor(frame.revision, tool) for tool in matching[:limit]]
    return {"tools": [{name: it[name] for name in SHOWN if name in it} for it in described]}


async def call_tool(
    name: Annotated[str, Field(description="The name of a tool that find_tools returned")],
    arguments: Annotated[
        dict[str, Any] | None, Field(description="Its arguments, as its input schema describes")
    ] = None,
) -> str:
    """Call a tool that find_tools returned, by its name."""
    # Any other call has become one of the tool that it names.
    raise ToolError(f"{CALL} cannot call {name[:64]!r}: name a tool that {FIND} returned")


def add(server: Server, component: Component) -> None:
    """Add both tools to a server with ``tool_search`` which was given its first tool."""
    if not server.tool_search or component.kind != ToolComponent.kind:
        return
    if component.handler in (find_tools, call_tool):
        return
    present = server.components.registered_at(ToolComponent.kind, FIND)
    if present is not None and present.handler is find_tools:
        return
    find = tool_component(find_tools, read_only=True, always_load=True, title="Find tools")
    # Whether a call can be a task depends on the tool that it names.
    call = tool_component(call_tool, always_load=True, title="Call a tool", task_support="optional")
    for tool in (find, call):
        # The selection of a connection is checked for the tools that they call.
        server.components.add(replace(tool, is_in_every_selection=True))


def _is_call(request: Request) -> bool:
    """Whether a request calls another tool through ``call_tool``."""
    params = request.params
    if request.method != "tools/call" or params.get("name") != CALL:
        return False
    given = params.get("arguments")
    if type(given) is not dict or given.keys() - {"name", "arguments"}:
        return False  # The schema of ``call_tool`` reports the error.
    has_arguments = type(given.get("arguments") or {}) is dict
    return type(given.get("name")) is str and given["name"] != CALL and has_arguments


def redirect(server: Server, request: Request) -> Request | None:
    """Return the call of the tool that a call of ``call_tool`` names; None for other requests."""
    if not _is_call(request):
        return None
    given = request.params["arguments"]
    inner = {"name": given["name"], "arguments": given.get("arguments") or {}}
    return request._replace(params={**request.params, **inner})


def is_for(server: Server) -> bool:
    return server.tool_search


def facts(server: Server) -> list[tuple[Any, Any]]:
    return [(_("Tool search"), _("yes") if server.tool_search else _("no"))]


EXTENSION = Extension(
    name="django-mcp/tool-search",
    add_to=add,
    redirect=redirect,
    short_lists=["tool"],
    is_for=is_for,
    facts=facts,
)
