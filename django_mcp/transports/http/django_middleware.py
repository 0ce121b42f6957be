"""Django's middleware around HTTP requests to MCP servers, where two settings ask for it.

FIRST_MIDDLEWARE runs before the authenticators, DJANGO_MIDDLEWARE after them, in
one chain.

The middleware sees ``frame.django_request``; its attributes there, its context variables and its
database connections are shared with the handler, which runs on the thread of its request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.signals import setting_changed
from django.http import HttpRequest as DjangoRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch
from django.utils.decorators import async_only_middleware

from django_mcp import conf
from django_mcp.core.auth.base import TENANT_KEY, Challenge, Principal
from django_mcp.runtime import pools, private, request_scope
from django_mcp.runtime.around import chain, tenants
from django_mcp.runtime.around.chain import MiddlewareChain
from django_mcp.runtime.django_types import requests as django_requests
from django_mcp.transports.http.request import HeaderPairs, HttpError, Send, django_request

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

logger = logging.getLogger("django_mcp")

Message = dict[str, Any]
Serve = Callable[[Principal, "View"], Coroutine[Any, Any, None]]
"""Answers the request of a caller, by calls of the view as ``send``."""

CONTENT_HEADERS = frozenset({"content-type", "content-length", "content-encoding"})


@cache
def get() -> DjangoMiddleware | None:
    """The middleware of both settings; None where a site asks for none."""
    site = conf.get()
    named = site.django_middleware
    after = tuple(settings.MIDDLEWARE) if named == "all" else tuple(named)
    if site.first_middleware:
        return DjangoMiddleware((*site.first_middleware, AUTHENTICATE, *after), authenticates=True)
    return DjangoMiddleware(after) if after else None


AUTHENTICATE = f"{__name__}.authenticate"


@async_only_middleware
def authenticate(get_response: Any) -> Any:
    """Authenticate the request between the middleware of FIRST_MIDDLEWARE and all others."""

    async def middleware(request: Any) -> HttpResponseBase:
        refusal: HttpResponseBase | None = await request.mcp_view.authenticate(request)
        if refusal is not None:
            return refusal
        response: HttpResponseBase = await get_response(request)
        return response

    return middleware


class McpResponse(HttpResponse):
    """The response of the MCP server, as the middleware sees it."""

    pairs: HeaderPairs = ()
    is_sent = False
    """Whether nothing of it is left to send. A stream cannot wait for the middleware."""


class DjangoMiddleware(MiddlewareChain):
    """The chain of middleware classes, around a view which answers MCP messages."""

    def __init__(self, paths: tuple[str, ...], *, authenticates: bool = False) -> None:
        super().__init__(paths, is_async=True)
        self.authenticates = authenticates

    def resolve_request(self, request: DjangoRequest) -> Any:
        """The view, instead of one of ROOT_URLCONF; ``process_view`` receives it."""
        match = ResolverMatch(mcp_endpoint, (), request.mcp_path_params, url_name="mcp")  # type: ignore[attr-defined]
        request.resolver_match = match
        return match

    def make_view_atomic(self, view: Any) -> Any:
        """The view itself: ATOMIC_REQUESTS applies to handlers."""
        return view

    async def run(
        self, http: HttpExchange, principal: Principal, send: Send, serve: Serve
    ) -> Principal:
        """Let ``serve`` answer the request within the middleware; return the caller.

        Raises HttpError if the middleware answers instead.
        """
        request = django_request(http.scope)
        _set_caller(request, http, principal)
        http.scope[django_requests.SCOPE_KEY] = request  # type: ignore[index]
        view = View(http, principal, send, serve)
        request.mcp_view = view  # type: ignore[attr-defined]
        request.mcp_path_params = http.scope.get("url_route", {}).get("kwargs", {})  # type: ignore[attr-defined]
        with pools.in_middleware_thread():
            response = await self._chain(request)
            if view.failure is not None:
                raise view.failure
            if not isinstance(response, McpResponse):
                raise _rejection(response, http)
            if not response.is_sent:
                await _send(response, send)
        # The endpoint sends the signal that the request is over.
        await sync_to_async(private.close_resources)(response)
        return view.principal


NOBODY = Principal(scheme="unauthenticated")
"""The caller of a request before its authentication."""


async def _serve_nothing(principal: Principal, send: View) -> None:
    """Answer nothing: the request is only checked."""


async def check(http: HttpExchange, principal: Principal | None = None) -> Principal:
    """The caller of a request, as the middleware leaves it; raises HttpError if it answers.

    For streams: they begin after the middleware has ended, so that they hold no thread of it.
    Without ``principal``, the request is authenticated.
    """
    middleware = get()
    if principal is None and (middleware is None or not middleware.authenticates):
        principal = await http.authenticate()
    if principal is None:
        principal = NOBODY
    if middleware is None:
        return principal
    return await middleware.run(http, principal, _drop, _serve_nothing)


async def _drop(message: Message) -> None:
    """Send nothing: the response follows."""


async def mcp_endpoint(request: Any, **_: Any) -> HttpResponseBase:
    """Answer the MCP message of ``request``."""
    response: HttpResponseBase = await request.mcp_view.respond(request)
    return response


# Origins are checked instead of a token, which programs do not have.
mcp_endpoint.csrf_exempt = True  # type: ignore[attr-defined]


class View:
    """The innermost part: it answers, and collects the response for the middleware to change."""

    def __init__(self, http: HttpExchange, principal: Principal, send: Send, serve: Serve) -> None:
        self._http = http
        self.principal = principal
        self.failure: HttpError | None = None
        """Why the request was not authenticated: middleware receives its status only."""
        self._pass_on = send
        self._serve = serve
        self._has_answered = False
        self._start: Message = {"status": 200, "headers": []}
        self._body: list[bytes] = []
        self.is_stream = False

    async def authenticate(self, request: DjangoRequest) -> HttpResponseBase | None:
        """Set the caller of the request; return a response where nobody accepts it."""
        http = self._http
        http.scope[TENANT_KEY] = await tenants.aof_request(request)  # type: ignore[index]
        try:
            self.principal = await http.authenticate()
        except HttpError as error:
            self.failure = error
            return HttpResponse(status=error.status)
        _set_caller(request, http, self.principal)
        return None

    async def respond(self, request: DjangoRequest) -> HttpResponseBase:
        principal = await _with_user(self.principal, request)
        if principal is None:
            self.failure = HttpError(500, "A middleware of this site has changed the user")
            return HttpResponse(status=500)
        self.principal = principal
        with request_scope.on_waiting_thread():
            await self._serve(self.principal, self)
        response = McpResponse(b"".join(self._body), status=self._start["status"])
        del response.headers["Content-Type"]
        response.pairs = self._start["headers"]
        for name, value in response.pairs:
            if name != b"content-length":  # The middleware may change the content.
                response.headers[name.decode("latin-1")] = value.decode("latin-1")
        response.is_sent = self.is_stream or not self._has_answered
        return response

    async def __call__(self, message: Message) -> None:
        """Collect a part of the response, or pass it on for a stream."""
        if message["type"] == "http.response.start":
            self._start = message
            self._has_answered = True
            self._body.clear()  # An error replaces the interrupted response.
            self.is_stream = (b"content-type", b"text/event-stream") in message["headers"]
        elif not self.is_stream:
            self._body.append(message.get("body", b""))
        if self.is_stream:
            await self._pass_on(message)


def _set_caller(request: DjangoRequest, http: HttpExchange, principal: Principal) -> None:
    django_requests.of_caller(request, principal.user, http.session)


async def _with_user(principal: Principal, request: DjangoRequest) -> Principal | None:
    """The principal, or another one if the middleware may set another user; None if it may not."""
    if request.user is principal.user:
        return principal
    # A lazy user may be loaded from the database.
    key, is_known = await sync_to_async(_identity)(request)
    if key == getattr(principal.user, "pk", None):
        return principal
    if not is_known and not getattr(principal.user, "is_authenticated", False):
        # A site may have an anonymous user in its database.
        return replace(principal, user=request.user)
    if not conf.get().middleware_changes_user:
        logger.error(CHANGED, request.user, principal.user)
        return None
    if not is_known:
        return Principal(scheme=MIDDLEWARE, user=request.user, tenant=principal.tenant)
    return replace(principal, scheme=MIDDLEWARE, subject=str(key), user=request.user)


CHANGED = (
    "A middleware in DJANGO_MIDDLEWARE has set the user %s, but the authenticators have accepted "
    "%s: the request is rejected. Remove the middleware which does that, move it to "
    'VIEW_MIDDLEWARE if it is for views, or set DJANGO_MCP["MIDDLEWARE_CHANGES_USER"] = True if '
    "that user is the caller."
)
MIDDLEWARE = "django_middleware"
"""The scheme of a caller that the middleware has identified."""


def _identity(request: DjangoRequest) -> tuple[Any, bool]:
    user: Any = request.user
    return getattr(user, "pk", None), bool(getattr(user, "is_authenticated", False))


def _rejection(response: HttpResponseBase, http: HttpExchange) -> HttpError:
    """The answer to a client if the middleware responds instead of the server.

    Clients read JSON-RPC, so a page becomes its status; a redirect to the login page becomes 401
    with a challenge: clients let their user log in.
    """
    status = response.status_code
    location = response.headers.get("Location")
    if chain.is_login(location):
        challenge = Challenge(message="Log in: this site requires it")
        headers = http.authentication.headers(http.scope, challenge)
        return HttpError(401, challenge.message, headers)
    if status < 300:
        return HttpError(403, "A middleware of this site answered instead of the MCP server")
    return HttpError(status, f"{status} {response.reason_phrase}", _headers_of(response))


def _headers_of(response: HttpResponseBase) -> HeaderPairs:
    pairs = [
        (name.lower().encode("ascii"), value.encode("latin-1"))
        for name, value in response.headers.items()
        if name.lower() not in CONTENT_HEADERS
    ]
    return (*pairs, *_cookies(response))


def _cookies(response: HttpResponseBase) -> HeaderPairs:
    return [
        (b"set-cookie", morsel.output(header="").strip().encode("ascii"))
        for morsel in response.cookies.values()
    ]


async def _send(response: McpResponse, send: Send) -> None:
    """Send the response of the server as the middleware left it."""
    before = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.pairs}
    now = {name.lower(): value for name, value in response.headers.items()}
    # Two headers of one name, such as challenges, are kept where the middleware left them alone.
    kept = [
        pair
        for pair in response.pairs
        if now.get(name := pair[0].decode("latin-1")) == before[name]
    ]
    changed = [
        (name.encode("ascii"), value.encode("latin-1"))
        for name, value in now.items()
        if before.get(name) != value
    ]
    described = (*kept, *changed, *_cookies(response))
    headers = [pair for pair in described if pair[0] != b"content-length"]
    if response.status_code != 204:
        headers.append((b"content-length", b"%d" % len(response.content)))
    start = {"type": "http.response.start", "status": response.status_code}
    with suppress(OSError):  # The client may have disconnected.
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": response.content, "more_body": False})


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "MIDDLEWARE"}:
        get.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.django_middleware")
