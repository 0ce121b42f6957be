"""Middleware of a site, as Django's documentation shows how to write it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils import timezone, translation
from django.utils.decorators import async_only_middleware, sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin

Next = Callable[[HttpRequest], Any]


def sync_tenant(get_response: Next) -> Next:
    """Set a tenant on the request and on the connection of the thread, as django-tenants does."""

    def middleware(request: HttpRequest) -> Any:
        request.tenant = request.headers.get("X-Tenant")  # type: ignore[attr-defined]
        connection.tenant = request.tenant  # type: ignore[attr-defined]
        request.thread = threading.get_ident()  # type: ignore[attr-defined]
        response = get_response(request)
        response["X-Tenant"] = connection.tenant  # type: ignore[attr-defined]
        return response

    return middleware


def longer(get_response: Next) -> Next:
    """Add a line to each response."""

    def middleware(request: HttpRequest) -> Any:
        response = get_response(request)
        response.content += b" \n"
        return response

    return middleware


@async_only_middleware
def async_tenant(get_response: Next) -> Next:
    """Set a tenant on the request, and a language."""

    async def middleware(request: HttpRequest) -> Any:
        request.tenant = request.headers.get("X-Tenant")  # type: ignore[attr-defined]
        with translation.override("de"):
            response = await get_response(request)
        response["X-Tenant"] = request.tenant  # type: ignore[attr-defined]
        return response

    return middleware


class TimezoneMiddleware:
    """Activate the time zone of the request: both kinds in one class."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        timezone.activate(request.headers.get("X-Timezone", "UTC"))
        return self.get_response(request)


class OldStyle(MiddlewareMixin):
    """Use the methods that Django calls: process_request, process_view, process_response."""

    def process_request(self, request: HttpRequest) -> None:
        request.called = ["request"]  # type: ignore[attr-defined]

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> None:
        request.called += ["view", *kwargs.items()]

    def process_response(self, request: Any, response: HttpResponse) -> HttpResponse:
        response["X-Called"] = " ".join(map(str, [*request.called, "response"]))
        response.set_cookie("seen", "1")
        return response


@sync_and_async_middleware
def denies(get_response: Next) -> Next:
    """Deny every request by an exception, as a list of IP addresses does."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> Any:
            raise PermissionDenied

        return middleware
    raise AssertionError("It is asynchronous here")


def redirects(get_response: Next) -> Next:
    """Redirect to https, with the port of another server."""
    return lambda request: HttpResponseRedirect("https://example.org/mcp")


def answers(get_response: Next) -> Next:
    """Answer with a page."""
    return lambda request: HttpResponse("<h1>We are closed</h1>")


def too_many(get_response: Next) -> Next:
    """Answer with an error and headers of its own."""
    return lambda request: JsonResponse({"secret": 1}, status=429, headers={"Retry-After": "9"})


def fails(get_response: Next) -> Next:
    """Raise an unexpected error."""

    def middleware(request: HttpRequest) -> Any:
        raise ValueError("a secret of the middleware")

    return middleware


def impersonates(get_response: Next) -> Next:
    """Act as the user that a header names."""

    def middleware(request: HttpRequest) -> Any:
        if name := request.headers.get("X-Act-As"):
            request.user = User.objects.get(username=name)
        return get_response(request)

    return middleware


class OwnCall(MiddlewareMixin):
    """Call the view synchronously, as classes from the time before ASGI do."""

    def __call__(self, request: HttpRequest) -> Any:
        response: Any = self.get_response(request)
        response["X-Status"] = str(response.status_code)
        return response
