"""Middleware of the kinds that sites have around their APIs, small."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.common import CommonMiddleware
from django.urls import resolve
from django.utils.decorators import async_only_middleware

Next = Callable[[HttpRequest], Any]
seen: list[Any] = []
local = threading.local()


class Resolves:
    """Find the event of a URL before the view runs, as pretix does."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        request.event = resolve(request.path_info).url_name
        seen.append(request.event)
        return self.get_response(request)


def guards_api(get_response: Next) -> Next:
    """Close the API to all but staff, by its path."""

    def middleware(request: Any) -> Any:
        if request.path.startswith("/api/") and not request.user.is_staff:
            raise PermissionDenied
        return get_response(request)

    return middleware


def closes_api(get_response: Next) -> Next:
    """Answer instead of the API."""
    return lambda request: HttpResponse("<h1>closed</h1>", status=503)


def redirects_to_login(get_response: Next) -> Next:
    """Send everybody who is not logged in to the login page."""

    def middleware(request: Any) -> Any:
        if not request.user.is_authenticated:
            return HttpResponseRedirect(settings.LOGIN_URL)
        return get_response(request)

    return middleware


def chooses_tenant(get_response: Next) -> Next:
    """Set a tenant on the request and on the connection, as django-tenants does."""

    def middleware(request: Any) -> Any:
        request.tenant = request.get_host().partition(".")[0]
        connection.tenant = request.tenant  # type: ignore[attr-defined]
        return get_response(request)

    return middleware


def keeps_request_in_thread(get_response: Next) -> Next:
    """Keep the request for code that has none, as django-crum does."""

    def middleware(request: Any) -> Any:
        local.request = request
        try:
            return get_response(request)
        finally:
            del local.request

    return middleware


def has_an_anonymous_user(get_response: Next) -> Next:
    """Make callers without a session the site's anonymous user, as Weblate does."""

    def middleware(request: Any) -> Any:
        request.user = User.objects.get_or_create(username="anonymous")[0]
        return get_response(request)

    return middleware


class RetriesLocked(CommonMiddleware):
    """Look at the status in a ``__call__`` of its own, as label-studio does."""

    def __call__(self, request: Any) -> Any:
        response: Any = self.get_response(request)
        seen.append(response.status_code)
        return response


class Methods:
    """Note the methods that Django calls, and what a view raises."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        seen.append(("response", response.status_code))
        return response

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> None:
        seen.append(("view", request.resolver_match.url_name, kwargs))

    def process_exception(self, request: Any, exception: Exception) -> None:
        seen.append(("exception", str(exception)))


@async_only_middleware
def only_async(get_response: Next) -> Next:
    assert iscoroutinefunction(get_response)

    async def middleware(request: Any) -> Any:
        request.called = "asynchronously"
        return await get_response(request)

    return middleware


URLCONF = "tests.rest.test_view_middleware"


def other_urlconf(get_response: Next) -> Next:
    """Choose the URLs of a host, as django-hosts does."""

    def middleware(request: Any) -> Any:
        request.urlconf = URLCONF
        return get_response(request)

    return middleware


def tenant_of(request: Any) -> str | None:
    """What the middleware has set."""
    tenant: str | None = getattr(request, "tenant", None)
    return tenant
