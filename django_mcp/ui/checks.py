"""Checks of the views of tools: the variables of templates, and parts that hosts would block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.template import TemplateDoesNotExist, TemplateSyntaxError, engines
from django.template.backends.django import DjangoTemplates
from django.template.base import FilterExpression, Node, NodeList, Template, Variable
from django.template.defaulttags import CsrfTokenNode, TemplateLiteral
from django.template.loader_tags import ExtendsNode, IncludeNode
from django.template.smartif import TokenBase as Operator

from django_mcp.registry import registered_entries
from django_mcp.ui.base import view_of
from django_mcp.ui.mcp_apps import blocked
from django_mcp.ui.views import TemplateView

OF_REQUESTS = frozenset({"request", "perms", "csrf_token"})
"""Variables of views of Django, which no template of a view has."""
OF_PAGES = OF_REQUESTS | {"user", "messages"}
"""Variables that a page does not have either; a result may have members of these names."""
ORIGIN = re.compile(r"([a-z]+:)?//", re.IGNORECASE)


Messages = Iterator[CheckMessage]


def run() -> Messages:
    yield from check_views()
    yield from check_app_only_tools()


def check_views() -> Messages:
    views = (view_of(entry.component) for entry in registered_entries())
    # In the order of their first tools.
    for view in dict.fromkeys(each for each in views if isinstance(each, TemplateView)):
        yield from _of_requests(view)
        try:
            html = view.page()
        except Exception as error:
            yield Error(
                f"The page of the view {view.uri} cannot be rendered: "
                f"{type(error).__name__}: {error}",
                hint="Correct its template, which is rendered without a request.",
                id="django_mcp.E027",
            )
            continue
        yield from _blocked(view, html)


def check_app_only_tools() -> Messages:
    for entry in registered_entries():
        tool = entry.component
        if "app_only" in tool.options and tool.is_public and not tool.reads_only:
            yield Warning(
                f"The tool {tool.name!r} at {tool.source} is for views only, changes something, "
                "and needs no permission: any caller of the server can call it.",
                hint="Set a permission, scopes or read_only=True: app_only is no protection.",
                id="django_mcp.W049",
            )


def _blocked(view: TemplateView, html: str) -> Messages:
    csp = view.policy.to_meta().get("ui", {}).get("csp")
    yield from _warnings(f"the page of the view {view.uri}", blocked.find(html, csp))
    for template in _templates(view.fragment, set()) if view.fragment else ():
        # Not rendered: its URLs are only known where its source has the origin.
        parts = blocked.find(str(template.source), csp)
        absolute = [part for part in parts if ORIGIN.match(part.source)]
        yield from _warnings(f"the template {template.name!r} of the view {view.uri}", absolute)


def _warnings(where: str, parts: Iterable[blocked.Blocked]) -> Messages:
    for part in parts:
        yield Warning(
            f"Hosts block a part of {where}: {part}.",
            hint="Inline it with {% mcp_static %}, or name its origin in csp= of the view.",
            id="django_mcp.W051",
        )


def _of_requests(view: TemplateView) -> Messages:
    read = {view.template: OF_PAGES, view.fragment: OF_REQUESTS}
    for name, unknown in read.items():
        for variable in sorted(unknown.intersection(_variables(name))):
            yield Warning(
                f"The template {name!r} of the view {view.uri} reads {variable}, which a view does "
                "not have: it belongs to no request, and is shown to all callers.",
                hint="Return what the view shows from its tool. Calls of tools need no CSRF token.",
                id="django_mcp.W050",
            )


def _variables(name: str | None) -> Iterator[str]:
    """Yield the variables of a template, and of those that it extends or includes by name."""
    for template in _templates(name, set()) if name else ():
        for node in template.nodelist.get_nodes_by_type(Node):
            if isinstance(node, CsrfTokenNode):
                yield "csrf_token"
            yield from _names(node)


def _templates(name: str, known: set[str]) -> Iterator[Template]:
    template = _template(name)
    if template is None or name in known:
        return
    known.add(name)
    yield template
    for node in template.nodelist.get_nodes_by_type(ExtendsNode | IncludeNode):  # type: ignore[arg-type]
        expression: Any = getattr(node, "parent_name", None) or getattr(node, "template", None)
        if isinstance(getattr(expression, "var", None), str):
            yield from _templates(expression.var, known)


def _template(name: str) -> Template | None:
    for engine in engines.all():
        if isinstance(engine, DjangoTemplates):
            try:
                return engine.get_template(name).template
            except (TemplateDoesNotExist, TemplateSyntaxError):
                continue
    return None


def _names(node: Node) -> Iterator[str]:
    """Yield the first part of each variable that the expressions of a node refer to."""
    pending = [*vars(node).values()]
    while pending:
        part = pending.pop()
        if isinstance(part, Variable):
            yield str(part.var).partition(".")[0]
        elif isinstance(part, list | tuple) and not isinstance(part, NodeList):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, FilterExpression | TemplateLiteral | Operator):
            pending += [getattr(part, name, None) for name in MEMBERS]


MEMBERS = ("var", "filters", "value", "first", "second")
"""The attributes where the expressions of templates keep others."""
