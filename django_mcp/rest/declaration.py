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
from django_mcp.rest.batches import Declared
from django_mcp.rest.calls.credentials import FindAuth
from django_mcp.rest.operations import (
    actions_of,
    check_forced_user,
    is_viewset,
    view_class_of,
    view_operation,
    viewset_operation,
)
from django_mcp.server.server import Server

Prepare = Callable[[Any, Frame], None]
"""Sets attributes of the request of a view, which middleware of the site sets over HTTP."""


def rest_tools(
    viewset: Any,
    actions: Sequence[str] | None = None,
    *,
    server: Server | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
    prepare: Prepare | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register actions of a view set as tools: by default ``list`` and ``retrieve``.

    Each tool sends a request in the name of the caller to the URL that the view set has in the
    URLconf, so that its permissions, throttles, filters, pagination, versioning, parsers and
    renderers apply. ``options`` has the options of the tool of each action; beside those of
    ``tool``, they are ``serializer``, what an extra action reads (None for nothing), and ``query``,
    the JSON Schemas of further query parameters. Other keywords are options of all tools.

    ``prefix`` chooses between several URLs of a view set, ``version`` is the version of the API,
    and ``kwargs`` are arguments of the URL that the caller does not choose.
    ``auth(frame)`` returns ``request.auth`` for callers without a token of the API, where the
    permission classes of the view read it. ``prepare(request, frame)`` sets attributes of the
    request that middleware of the site sets over HTTP.

    The tools are built when components are first read, since URLs cannot be imported while apps
    are getting ready. An action that cannot be offered is a warning then, in the log and of
    ``manage.py check``. Raises ConfigurationError for unknown actions at once.
    """
    view_class = view_class_of(viewset)
    if not is_viewset(view_class):
        raise ConfigurationError(f"{view_class.__qualname__} is no view set: use rest_tool")
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    choices = {"version": version, "kwargs": kwargs or {}, "auth": auth, "prepare": prepare}
    names = actions_of(view_class, actions)
    own = options or {}
    _check_options(own, names)
    chosen_server = registry.default if server is None else server
    if not names:
        _record_nothing(chosen_server, view_class)
    batches.defer(
        chosen_server,
        (
            _declared_action(view_class, name, choose, {**common, **own.get(name, {})}, choices)
            for name in names
        ),
    )


def _check_options(own: Mapping[str, Any], names: Sequence[str]) -> None:
    if unknown := own.keys() - set(names):
        raise ConfigurationError(
            f"options has {sorted(unknown)[0]!r}, which is none of the actions"
        )


def _declared_action(
    view_class: Any,
    name: str,
    choose: Mapping[str, Any],
    options: Mapping[str, Any],
    choices: Mapping[str, Any],
) -> Declared:
    return Declared(
        view_class=view_class,
        name=name,
        find=partial(viewset_operation, view_class, name, choose),
        options=options,
        choices=choices,
    )


def _record_nothing(server: Server, view_class: Any) -> None:
    where = f"{view_class.__module__}.{view_class.__qualname__}"
    reason = (
        f"{where} has neither list nor retrieve, which are the actions without actions=[…]: name "
        "those that become tools"
    )
    availability.record_missing(server, where, reason)


def rest_tool(
    view: Any,
    method: str = "get",
    *,
    server: Server | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
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
        choices={"version": version, "kwargs": kwargs or {}, "auth": auth, "prepare": prepare},
    )
    batches.defer(registry.default if server is None else server, [declared])
