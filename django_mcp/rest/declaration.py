"""rest_tools and rest_tool: views of Django REST framework as tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from django_mcp import registry
from django_mcp.components.base import ConfigurationError
from django_mcp.components.tool import ToolOptions
from django_mcp.frame.frame import Frame
from django_mcp.rest import availability, batches
from django_mcp.rest.arguments import UNSET
from django_mcp.rest.batches import Declared, Group
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
from django_mcp.server.server import Server

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
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
    authenticated_by: Sequence[type | str] = (),
    prepare: Prepare | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register the actions of a view set, or of all views of a router, as tools.

    A tool sends a request in the name of the caller to the URL of the view: its permissions,
    throttles, filters, pagination, versioning, parsers and renderers apply. ``target`` is a view
    set, of which ``actions`` become tools, by default ``list`` and ``retrieve``; or a router or a
    list of URL patterns, of which all that GET reads does, with ``read_only=False`` everything.
    Names come from the basenames there: ``include=["list_*"]`` and ``exclude`` choose by name.
    ``one_tool_per_view`` makes one tool of each view set, with an argument ``action``.
    ``options`` has the options of the tool of each action, or of each name of a router: those of
    ``tool``, ``serializer``, what an extra action reads (None for nothing), and ``query``, the
    JSON Schemas of further query parameters. Other keywords are options of all tools.

    ``prefix`` chooses between several URLs, ``version`` is the version of the API, and ``kwargs``
    are arguments of the URL that the caller does not choose. ``auth(frame)`` returns
    ``request.auth`` for callers without a token of the API; ``authenticated_by`` are the
    authentication classes of a view for which they count, where it accepts fewer than the API.
    ``prepare(request, frame)`` sets attributes of the request that middleware sets over HTTP.

    A view that cannot be offered is a warning in the log, when the tools are built at the first
    use of the server. Raises ConfigurationError for unknown actions of a view set.
    """
    check_forced_user()
    declared: dict[str, Any] = {
        "choose": {"prefix": prefix, "kwargs": kwargs},
        "options": options or {},
        "common": common,
        "choices": _choices(
            version=version,
            kwargs=kwargs or {},
            auth=auth,
            authenticated_by=authenticated_by,
            prepare=prepare,
        ),
        "is_one_tool_per_view": one_tool_per_view,
    }
    chosen_server = registry.default if server is None else server
    if has_urls(target):
        urls = _declared_urls(target, actions, include=include, exclude=exclude, **declared)
        batches.defer(chosen_server, [urls])
    else:
        batches.defer(chosen_server, _declared_actions(chosen_server, target, actions, **declared))


def _choices(*, authenticated_by: Any, **others: Any) -> dict[str, Any]:
    """Return how operations are called; raises ConfigurationError for a class that is no list."""
    if isinstance(authenticated_by, str | type):
        raise ConfigurationError(
            f"authenticated_by is {authenticated_by!r}: give a list of classes"
        )
    return {"authenticated_by": tuple(authenticated_by), **others}


def _declared_urls(
    target: Any,
    actions: Sequence[str] | None,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    common: Mapping[str, Any],
    **declared: Any,
) -> DeclaredUrls:
    for name, names in (("actions", actions), ("include", include), ("exclude", exclude)):
        if isinstance(names, str):
            raise ConfigurationError(f"{name} is the string {names!r}: give a list of names")
    return DeclaredUrls(
        target=target,
        actions=actions,
        include=include,
        exclude=exclude,
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
    _check_options(options, names)
    if not names:
        _record_nothing(server, view_class)
    group = Group(base_name(view_class), common) if is_one_tool_per_view else None
    return [
        Declared(
            view_class=view_class,
            name=name,
            find=partial(viewset_operation, view_class, name, choose),
            options={**common, **options.get(name, {})},
            choices=choices,
            group=group,
        )
        for name in names
    ]


def _check_options(own: Mapping[str, Any], names: Sequence[str]) -> None:
    if unknown := own.keys() - set(names):
        raise ConfigurationError(
            f"options has {sorted(unknown)[0]!r}, which is none of the actions"
        )


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
    serializer: Any = UNSET,
    query: Mapping[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> None:
    """Register one method of a view as a tool: of an APIView class, or of an ``@api_view``.

    ``serializer`` describes the data that the view reads, if it is no generic view; None means that
    it reads none. The other parameters are those of ``rest_tools``.
    """
    view_class = view_class_of(view)
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    given: dict[str, Any] = {**options, "query": query}
    if serializer is not UNSET:
        given["serializer"] = serializer
    declared = Declared(
        view_class=view_class,
        name=method,
        find=partial(view_operation, view, method, choose),
        options=given,
        choices=_choices(
            version=version,
            kwargs=kwargs or {},
            auth=auth,
            authenticated_by=authenticated_by,
            prepare=prepare,
        ),
    )
    batches.defer(registry.default if server is None else server, [declared])
