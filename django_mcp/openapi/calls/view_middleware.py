"""The call of a view within the middleware that a site names in VIEW_MIDDLEWARE.

It surrounds the request that the tool sends, with the path of the view, on the thread of the call.
A response of the middleware itself counts as the response of the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.core.handlers.base import BaseHandler
from django.core.signals import setting_changed
from django.http import Http404, HttpResponseBase, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.urls import ResolverMatch

from django_mcp import conf
from django_mcp.core.protocol.errors import AuthenticationRequired
from django_mcp.openapi.calls import responses
from django_mcp.openapi.calls.requests import RequestOfTool, set_session
from django_mcp.runtime.around import chain, tenants
from django_mcp.runtime.around.chain import MiddlewareChain

STATUSES: Mapping[type[Exception], int] = {
    Http404: 404,
    PermissionDenied: 403,
    SuspiciousOperation: 400,
    BadRequest: 400,
    MultiPartParserError: 400,
}
"""Exceptions around a view with a status in Django's own handler."""


def response_to(error: Exception) -> HttpResponseBase:
    """Return the response to such an exception, without its text, as Django's pages have none."""
    status = next(code for kind, code in STATUSES.items() if isinstance(error, kind))
    return JsonResponse({}, status=status)


def paths_of(server: Any) -> tuple[str, ...]:
    """Return the middleware that runs around the views of a server, outermost first."""
    own: tuple[str, ...] | None = server.view_middleware
    return conf.get().view_middleware if own is None else own


OF_HTTP = (
    "django.",
    "django_mcp.",
    "corsheaders.",
    "debug_toolbar.",
    "whitenoise.",
    "django_htmx.",
)
"""Packages of middleware that is for browsers, or that this package has an equivalent of."""


HINT = (
    'List in DJANGO_MCP["VIEW_MIDDLEWARE"] what has to happen around such calls, in the order of '
    "MIDDLEWARE: a guard, a tenant, a change log. Silence this check if nothing is missing."
)
"""The remedy of system checks for skipped middleware."""


def skipped(servers: Sequence[Any]) -> list[str]:
    """Return the middleware of the project that a view does not have if a tool calls it.

    ``servers`` are those with such tools; middleware that all of them name is not skipped.
    """
    if not servers:
        return []
    site = conf.get()
    if site.django_middleware == "all":
        return []
    of_servers = set.intersection(*({*paths_of(server)} for server in servers))
    run = {*site.django_middleware, *site.first_middleware, *of_servers}
    of_site = [path for path in settings.MIDDLEWARE if not path.startswith(OF_HTTP)]
    return [path for path in of_site if path not in run]


def call(request: RequestOfTool, match: ResolverMatch) -> HttpResponseBase:
    """Return the response of a synchronous view; exceptions of the view are raised."""
    paths = paths_of(request.mcp_frame.server)
    if not paths:
        _check_tenant(request)
        # ATOMIC_REQUESTS applies as it does to a request over HTTP.
        view = BaseHandler().make_view_atomic(match.func)
        response: HttpResponseBase = view(request, *match.args, **match.kwargs)
        return response
    _prepare(request, match)
    return _outcome(request, _chain(paths, is_async=False).respond(request))


async def acall(request: RequestOfTool, match: ResolverMatch) -> HttpResponseBase:
    """Like ``call``, for an asynchronous view."""
    paths = paths_of(request.mcp_frame.server)
    if not paths:
        _check_tenant(request)
        view: Any = BaseHandler().make_view_atomic(match.func)
        response: HttpResponseBase = await view(request, *match.args, **match.kwargs)
        return response
    _prepare(request, match)
    return _outcome(request, await _chain(paths, is_async=True).respond(request))


class _ViewMiddleware(MiddlewareChain):
    """The middleware around the views of tools, in one colour."""

    def __init__(self, paths: tuple[str, ...], *, is_async: bool) -> None:
        super().__init__(paths, is_async=is_async, convert=_with_response)

    def respond(self, request: RequestOfTool) -> Any:
        return self._chain(request)

    def resolve_request(self, request: Any) -> ResolverMatch:
        """The declared view, for the caller of the tool, whoever a middleware has set.

        A middleware may choose another URLconf; raises Http404 if another view is there.
        """
        match: ResolverMatch = request.mcp_match
        if (urlconf := getattr(request, "urlconf", None)) is not None:
            match = request.match_in(urlconf)
        request.resolver_match = match
        # As an authentication class of the view would do, after the middleware.
        vars(request).update(request.mcp_caller)
        _check_tenant(request)
        return match


@lru_cache(maxsize=20)
def _chain(paths: tuple[str, ...], *, is_async: bool) -> _ViewMiddleware:
    return _ViewMiddleware(paths, is_async=is_async)


def _check_tenant(request: RequestOfTool) -> None:
    """Raise PermissionDenied for a request at a tenant other than the caller's."""
    tenant = tenants.of_request(request)
    if tenant and tenant != request.mcp_frame.principal.tenant:
        raise PermissionDenied


def _prepare(request: Any, match: ResolverMatch) -> None:
    """Set the attributes that middleware reads: the caller, and the session of a browser."""
    request.mcp_match = match
    # AuthenticationMiddleware takes these instead of the user of the session.
    request._cached_user = request._acached_user = request.user
    set_session(request)


def _with_response(get_response: Any) -> Any:
    """``get_response``, which returns a response where it raises an exception.

    Middleware receives a response with a status, as around every view. The exception of a failure
    is raised at the end, for the log and the hooks of tools.
    """
    if iscoroutinefunction(get_response):

        async def respond_async(request: Any) -> Any:
            try:
                return await get_response(request)
            except Exception as error:
                return _response_of(request, error)

        return respond_async

    def respond(request: Any) -> Any:
        try:
            return get_response(request)
        except Exception as error:
            return _response_of(request, error)

    return respond


def _response_of(request: Any, error: Exception) -> HttpResponseBase:
    if isinstance(error, tuple(STATUSES)):
        return response_to(error)
    response = JsonResponse({}, status=500)
    request.mcp_failure = (error, response)
    return response


def _outcome(request: Any, response: HttpResponseBase) -> HttpResponseBase:
    error, of_error = getattr(request, "mcp_failure", (None, None))
    if error is not None and response is of_error:
        raise error
    is_anonymous = responses.is_anonymous(request.mcp_frame)
    if is_anonymous and chain.is_login(response.headers.get("Location")):
        raise AuthenticationRequired
    return response


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "MIDDLEWARE"}:
        _chain.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.view_middleware")
