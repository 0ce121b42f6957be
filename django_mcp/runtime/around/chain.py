"""A chain of Django's middleware classes around a function that answers a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch
from django.utils.deprecation import MiddlewareMixin
from django.utils.module_loading import import_string

from django_mcp.runtime import private

Convert = Callable[[Any], Any]
"""Returns a function of the same colour that returns a response for an exception."""


class MiddlewareChain(BaseHandler):
    """The middleware that a list names, outermost first, as Django builds it of MIDDLEWARE.

    A subclass says in ``resolve_request`` which view it surrounds.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        is_async: bool,
        convert: Convert = convert_exception_to_response,
    ) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._is_async = is_async
        self._convert = convert
        chain: Any = convert(private.view_within_middleware(self, is_async=is_async))
        is_chain_async = is_async
        for path in reversed(paths):
            chain, is_chain_async = self._within(import_string(path), path, chain, is_chain_async)
        self._chain: Any = self.adapt_method_mode(is_async, chain, is_chain_async)

    def _within(self, factory: Any, path: str, inner: Any, is_async: bool) -> tuple[Any, bool]:
        """``inner`` within a middleware, and whether it is asynchronous."""
        goes_async = self._goes_async(factory, is_async)
        adapted = self.adapt_method_mode(goes_async, inner, is_async)
        try:
            middleware = factory(adapted)
        except MiddlewareNotUsed:
            return inner, is_async
        if middleware is None:
            raise ImproperlyConfigured(f"The middleware {path} returned None.")
        if hasattr(middleware, "process_view"):
            method = self.adapt_method_mode(self._is_async, middleware.process_view)
            self._view_middleware.insert(0, method)
        if hasattr(middleware, "process_template_response"):
            method = self.adapt_method_mode(self._is_async, middleware.process_template_response)
            self._template_response_middleware.append(method)
        if hasattr(middleware, "process_exception"):
            method = self.adapt_method_mode(False, middleware.process_exception)
            self._exception_middleware.append(method)
        return self._convert(middleware), goes_async

    def _goes_async(self, factory: Any, is_inner_async: bool) -> bool:
        """Whether a middleware is called asynchronously: only where it can be.

        In a synchronous chain, one that can be both stays on the thread, as under WSGI.
        """
        if not self._is_async and not is_inner_async and getattr(factory, "sync_capable", True):
            return False
        if isinstance(factory, type) and issubclass(factory, MiddlewareMixin):
            # A class of a site may call ``get_response`` synchronously, in a ``__call__`` of its
            # own. It inherits from the mixin that it can be asynchronous, which it cannot: it would
            # receive a coroutine as the response.
            own = factory.__call__
            if own is not MiddlewareMixin.__call__ and not iscoroutinefunction(own):
                return False
        return bool(getattr(factory, "async_capable", False))


def is_login(location: str | None) -> bool:
    """Whether a redirect leads to the page of LOGIN_URL."""
    if location is None:
        return False
    with suppress(NoReverseMatch):
        return urlsplit(location).path == urlsplit(resolve_url(settings.LOGIN_URL)).path
    return False
