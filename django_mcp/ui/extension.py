"""Views as an extension: the options ``ui`` and ``app_only`` of tools, and what they bring.

The page of a view is a resource, a view that shows fragments has one in each result, and a tool for
views only is no tool of models.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.resource import ResourceComponent
from django_mcp.core.dispatch import result_size
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import Revision
from django_mcp.core.server.components import Expected
from django_mcp.core.server.server import Server
from django_mcp.extensions import CallPlan, Extension, Option, Step
from django_mcp.ui.base import View, add_fragment, has_fragment, tool_meta, view_of
from django_mcp.ui.mcp_apps.metadata import EXTENSION as NAME
from django_mcp.ui.mcp_apps.metadata import MEMBER

# The options.


def read_view(value: Any, where: str) -> View:
    if isinstance(value, View):
        return value
    raise ConfigurationError(
        f'The ui of {where} is {value!r}: write template_view("shop/mcp/cart.html") of '
        "django_mcp.ui"
    )


def read_app_only(value: Any, where: str) -> bool | None:
    return bool(value) or None


def meta_of(tool: Component) -> Json:
    return {"_meta": tool_meta(view_of(tool), app_only=is_for_views(tool))}


def meta_without_view(tool: Component) -> Json:
    """The same, for a tool without a view: the option of a view lists it otherwise."""
    return {} if view_of(tool) is not None else meta_of(tool)


# The steps of calls.


def is_for_views(component: Component, revision: Revision | None = None) -> bool:
    return "app_only" in component.options


async def check_direct(frame: Frame, plan: CallPlan, arguments: dict[str, Any]) -> None:
    """Reject calls through another tool: hosts hide tools of views from the model."""
    if frame.private.get("is_indirect"):
        raise plan.unknown(plan.component.key)


def show(frame: Frame, tool: Component, value: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Add the fragment that the view of the tool shows; it has none for an error."""
    if result.get("isError"):
        return result

    def render() -> str:
        view: View = tool.options["ui"]
        html = view.fragment_of(value, frame.message.params.get("arguments") or {})
        result_size.check_text(frame, tool, html)
        return html

    return add_fragment(tool, result, render)


# Its declaration.


def settings(server: Server, revision: Revision) -> Json | None:
    return {} if server.components.has_any(has_view) else None


def has_view(component: Component | Expected) -> bool:
    return view_of(component) is not None


def add_page(server: Server, component: Component) -> None:
    """Add the page of the view of a tool."""
    if has_view(component):
        # Imported by sites with a view only.
        from django_mcp.ui import pages

        pages.add_page(server, component)


def check() -> Iterable[Any]:
    # With the templates and elements that it searches, which no process needs that serves.
    from django_mcp.ui import checks

    return checks.run()


EXTENSION = Extension(
    name=NAME,
    settings=settings,
    options=[
        Option(
            name="ui",
            read=read_view,
            listed=meta_of,
            is_constant=lambda view: view.is_constant,
            only_on_server="hosts read views before, so declare tools with a view on the server",
            # A host has to know a tool to show its results, or to let a view call it.
            always_load=True,
            brings=[ResourceComponent.kind],
        ),
        Option(
            name="app_only",
            read=read_app_only,
            may_be_method=True,
            listed=meta_without_view,
            always_load=True,
            is_for_models=False,
        ),
    ],
    before_arguments=[Step(check_direct, is_for_views)],
    after_result=[Step(show, lambda component, revision: has_fragment(component))],
    add_to=add_page,
    meta_members=[MEMBER],
    check=check,
)
