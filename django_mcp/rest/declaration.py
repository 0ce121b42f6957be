"""rest_tools and rest_tool: views of Django REST framework as tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolOptions
from django_mcp.core.frame.frame import Frame
from django_mcp.core.server.server import Server
from django_mcp.openapi import availability, batches
from django_mcp.openapi.batches import Declared, Group
from django_mcp.openapi.calls.answers import Answer, check_answer
from django_mcp.openapi.selection import Selection
from django_mcp.rest.arguments import UNSET
from django_mcp.rest.calls.credentials import FindAuth
from django_mcp.rest.operations import (
    actions_of,
    base_name,
    check_forced_user,
    is_viewset,
    view_class_of,
    view_operation,
    viewset_operation,
)
from django_mcp.rest.routers import DeclaredUrls, has_urls
from django_mcp.rest.source import declare

Prepare = Callable[[Any, Frame], None]
"""Sets attributes of the request of a view, which middleware of the site sets over HTTP."""


def rest_tools(
    target: Any,
    actions: Sequence[str] | None = None,
    *,
    server: Server | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    one_tool_per_view: bool = False,
    prefix: str | Mapping[str, str] = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
    authenticated_by: Sequence[type | str] = (),
    prepare: Prepare | None = None,
    answer: Answer | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register the actions of a view set, or of all views of a router, as tools.

    A tool sends a request in the name of the caller to the URL of the view, so all that the view
    declares applies. Of a view set, ``actions`` become tools, by default ``list`` and ``retrieve``;
    of a router or a list of URL patterns, those of GET, with ``read_only=False`` all, and
    ``include=["*_list"]`` and ``exclude`` choose by name. ``options`` has options of ``tool`` for
    each action, or each name of a router, and ``serializer`` for the data of an extra action (None:
    no data), ``query`` for the JSON Schemas of further parameters, and ``answer``.

    ``prefix`` chooses another URL than the first of a view, in a router by patterns of names, and
    ``version`` the version of the API. ``auth(frame)`` returns ``request.auth`` for callers without
    a token of the API, whom the classes in ``authenticated_by`` accept. Other parameters are those
    of ``openapi_tools``.

    A view that cannot be a tool is a warning at the first use of the server. Raises
    ConfigurationError for unknown actions of a view set.
    """
    how = {"auth": auth, "authenticated_by": authenticated_by, "prepare": prepare, "answer": answer}
    chosen = {"prefix": prefix, "include": include, "exclude": exclude, "kwargs": kwargs}
    declared = {
        "options": options or {},
        "common": common,
        "choices": _choices(version, kwargs, how, *(options or {}).values()),
    }
    _declare(server, target, actions, chosen, {**declared, "one_tool_per_view": one_tool_per_view})


def _declare(
    server: Server | None,
    target: Any,
    actions: Sequence[str] | None,
    chosen: Mapping[str, Any],
    declared: dict[str, Any],
) -> None:
    check_forced_user()
    server = registry.server_or_default(server, "rest_tools")
    declared["is_one_tool_per_view"] = declared.pop("one_tool_per_view")
    if has_urls(target):
        names = {name: chosen[name] for name in ("prefix", "include", "exclude")}
        declared["choose"] = {"kwargs": chosen["kwargs"]}
        batches.defer(server, [_declared_urls(target, actions, **names, **declared)])
        return
    if not isinstance(chosen["prefix"], str):
        raise ConfigurationError("prefix has patterns of names, which only a router has")
    declared["choose"] = {name: chosen[name] for name in ("prefix", "kwargs")}
    batches.defer(server, _declared_actions(server, target, actions, **declared))


def _choices(
    version: str | None, kwargs: Any, how: Mapping[str, Any], *options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how operations are called; raises ConfigurationError for values of another kind."""
    for each in (how, *options):
        check_answer(each.get("answer"))
    classes = how["authenticated_by"]
    if isinstance(classes, str | type):
        raise ConfigurationError(f"authenticated_by is {classes!r}: give a list of classes")
    return {**how, "version": version, "kwargs": kwargs or {}}


def _declared_urls(
    target: Any,
    actions: Sequence[str] | None,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    common: Mapping[str, Any],
    **declared: Any,
) -> DeclaredUrls:
    selection = Selection(include=include, exclude=exclude)
    selection.check(actions=actions or ())
    return DeclaredUrls(
        target=target,
        actions=actions,
        selection=selection,
        reads_only=common.get("read_only") is not False,
        common={name: value for name, value in common.items() if name != "read_only"},
        **declared,
    )


def _declared_actions(
    server: Server,
    viewset: Any,
    actions: Sequence[str] | None,
    *,
    choose: Mapping[str, Any],
    options: Mapping[str, Mapping[str, Any]],
    common: Mapping[str, Any],
    choices: Mapping[str, Any],
    is_one_tool_per_view: bool,
) -> list[Declared]:
    view_class = view_class_of(viewset)
    if not is_viewset(view_class):
        raise ConfigurationError(f"{view_class.__qualname__} is no view set: use rest_tool")
    names = actions_of(view_class, actions)
    if unknown := options.keys() - set(names):
        raise ConfigurationError(
            f"options has {sorted(unknown)[0]!r}, which is none of the actions"
        )
    if not names:
        _record_nothing(server, view_class)
    group = Group(base_name(view_class), common) if is_one_tool_per_view else None
    return [
        declare(
            view_class,
            name,
            find=partial(viewset_operation, view_class, name, choose),
            options={**common, **options.get(name, {})},
            choices=choices,
            group=group,
        )
        for name in names
    ]


def _record_nothing(server: Server, view_class: Any) -> None:
    where = f"{view_class.__module__}.{view_class.__qualname__}"
    reason = (
        f"{where} has neither list nor retrieve, which are the actions without actions=[…]: name "
        "those that become tools"
    )
    availability.record_missing(server, where, reason, is_check=False)


def rest_tool(
    view: Any,
    method: str = "get",
    *,
    server: Server | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
    authenticated_by: Sequence[type | str] = (),
    prepare: Prepare | None = None,
    answer: Answer | None = None,
    serializer: Any = UNSET,
    query: Mapping[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> None:
    """Register one method of a view as a tool: of an APIView class, or of an ``@api_view``.

    ``serializer`` describes the data that a view reads that is not generic; None means no data.
    Other parameters are those of ``rest_tools``.
    """
    view_class = view_class_of(view)
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    how = {"auth": auth, "authenticated_by": authenticated_by, "prepare": prepare, "answer": answer}
    given: dict[str, Any] = {**options, "query": query}
    if serializer is not UNSET:
        given["serializer"] = serializer
    declared = declare(
        view_class,
        method,
        find=partial(view_operation, view, method, choose),
        options=given,
        choices=_choices(version, kwargs, how),
    )
    target = registry.server_or_default(server, f"rest_tool({view_class.__qualname__})")
    batches.defer(target, [declared])
