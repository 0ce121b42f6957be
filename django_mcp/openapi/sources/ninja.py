"""Django Ninja as a source of operations: its own schema, its own URLs and its callbacks.

The only module that imports Django Ninja, and only where an API of it is given.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.urls import get_resolver

from django_mcp.core.components.base import ConfigurationError
from django_mcp.openapi.document import MARK, Described, Document
from django_mcp.openapi.routes import VARIABLE, Route, walk
from django_mcp.openapi.sources.callbacks import NinjaAccess, NinjaCredentials
from django_mcp.openapi.tools import Calling, Candidate, at_route

APP_NAME = "ninja"
ROOT = "api-root"
"""The name of the URL that each API has at its root."""


def is_api(target: Any) -> bool:
    """Whether it is an API of Django Ninja, or of a package that derives from it."""
    module = sys.modules.get("ninja")
    return module is not None and isinstance(target, module.NinjaAPI)


def operations(api: Any, calling: Calling) -> Iterator[Candidate]:
    """Yield the operations of an API at its URLs; raises ConfigurationError where it has none."""
    prefix = prefix_of(api, calling.prefix, calling.urlconf)
    schema, marked = marked_schema(api, prefix)
    document = Document(schema, prefix="", base=prefix)
    described = [*document.operations()]
    functions = [function_name(one.id, marked, one) for one in described]
    for one, function in zip(described, functions, strict=True):
        operation = marked[one.mark]
        is_unique = functions.count(function) == 1
        name = one.tool_name(function if is_unique or own_id(operation) else one.id)
        yield Candidate(
            name=name,
            described=one,
            where=f"{operation.view_func.__module__}.{operation.view_func.__qualname__}",
            find=partial(operation_of, api, one, operation, calling),
        )


def operation_of(api: Any, described: Described, operation: Any, calling: Calling) -> Any:
    """Return an operation at its route, with whom its callbacks accept."""
    callbacks = tuple(operation.auth_callbacks)
    auth = api.auth
    if auth is None or type(auth).__name__ == "NOT_SET_TYPE":
        auth = ()
    credentials = NinjaCredentials(
        callbacks=callbacks,
        of_api=tuple(auth) if isinstance(auth, Sequence) else (auth,),
        authenticated_by=calling.authenticated_by,
        find_headers=calling.credentials,
    )
    function = operation.view_func
    return at_route(
        described,
        calling,
        credentials=credentials,
        permission=NinjaAccess(credentials, function.__qualname__) if callbacks else None,
        secret_headers=frozenset(filter(None, map(parameter_of, callbacks))),
        function=function,
    )


def parameter_of(callback: Any) -> str:
    """Return the name of the parameter or header that a callback reads."""
    name = getattr(callback, "param_name", "") or getattr(callback, "header", "")
    return str(name).lower().replace("_", "-")


def function_name(operation_id: str, marked: Sequence[Any], described: Described) -> str:
    """Return the name of the function of an operation, and its method if it has several."""
    operation = marked[described.mark]
    name = own_id(operation) or str(operation.view_func.__name__)
    return f"{name}_{described.method}" if len(operation.methods) > 1 else name


RANDOM = re.compile(r"_[0-9a-f]{8}$")
"""The end of ids that Ninja Extra makes: another one in each process, unlike the name of a tool."""


def own_id(operation: Any) -> str:
    """Return the id that the author gives an operation; "" for none."""
    given = str(operation.operation_id or "")
    stable = RANDOM.sub("", given)
    is_made = stable != given and stable.endswith(operation.view_func.__name__)
    return stable if is_made else given


def marked_schema(api: Any, prefix: str) -> tuple[Mapping[str, Any], Sequence[Any]]:
    """Return the document of an API, and the operations by the numbers in it."""
    from ninja.openapi.schema import OpenAPISchema

    marked: list[Any] = []

    class MarkingSchema(OpenAPISchema):  # type: ignore[misc, unused-ignore]
        def operation_details(self, operation: Any) -> Any:
            # Ninja prints a warning for each id that it has seen, and routers may be mounted twice.
            self.all_operation_ids.clear()
            marked.append(operation)
            return {**super().operation_details(operation), MARK: len(marked) - 1}

    return MarkingSchema(api, prefix), marked


def prefix_of(api: Any, beginning: str, urlconf: Any) -> str:
    """Return the path of an API on the site, with its variables in braces."""
    namespace = api.urls_namespace.split(":")[-1]
    paths = []
    for includes, pattern in walk(get_resolver(urlconf).url_patterns, ()):
        # The innermost include belongs to the API.
        names = [(each.app_name, each.namespace) for each in includes[-1:]]
        if pattern.name == ROOT and names == [(APP_NAME, namespace)]:
            paths.append(Route(includes, pattern, urlconf).path)
    fitting = [path for path in paths if path.startswith(beginning.lstrip("/"))]
    if not fitting:
        others = f": its URLs are {', '.join(paths)}" if paths else ""
        raise ConfigurationError(
            f"The API {api.title!r} ({namespace}) has no URL{others}. Add api.urls to the URLconf"
        )
    return VARIABLE.sub(lambda match: f"{{{match[0][1:-1]}}}", fitting[0])
