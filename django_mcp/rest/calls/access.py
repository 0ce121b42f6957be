"""Whom a tool is hidden from: callers whom the view refuses whatever they send."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, NoReturn

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework.exceptions import APIException

from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.calls import requests, responses
from django_mcp.openapi.calls.credentials import NotAccepted
from django_mcp.rest.calls.credentials import Credentials
from django_mcp.rest.operations import Operation

logger = logging.getLogger("django_mcp")


class OfCall(BaseException):
    """A permission class needs a part of the call: its arguments, its path or its data.

    It is not an Exception, because permission classes catch those and refuse.
    """


class ViewAccess:
    """The permission of a tool: the answer of its view's permission classes before any call.

    The view asks them again at the call, with its arguments. An anonymous caller passes: the view
    answers that a login is needed. So does everybody where a class needs a part of the call.
    """

    is_of_caller = True

    def __init__(self, operation: Operation, of_caller: Credentials, prepare: Any) -> None:
        self._operation = operation
        self._credentials = of_caller
        self._prepare = prepare
        self._path = f"/{operation.route.path}"
        self.__module__ = operation.view_class.__module__
        self.__qualname__ = f"{operation.view_class.__qualname__}.check_permissions"

    @property
    def admits_anonymous(self) -> bool:
        """Whether the view itself lets in callers without credentials, as far as it is known."""
        try:
            _check_before_call(self._operation.view())
        except (APIException, Http404, PermissionDenied, OfCall):
            return False
        except Exception as error:
            # Code of the site, without attributes of its middleware: the call will raise it as
            # well.
            logger.debug("%s raised %r for an anonymous caller", self.__qualname__, error)
            return False
        return True

    def __call__(self, frame: Frame) -> bool:
        if responses.is_anonymous(frame):
            return True
        try:
            _check_before_call(self._view_of(frame))
        except (APIException, Http404, PermissionDenied, NotAccepted):
            return False
        except (OfCall, ToolError):
            return True  # The view decides at the call, or the call names the missing rights.
        return True

    def _view_of(self, frame: Frame) -> Any:
        caller = self._credentials.caller(frame)
        request: Any = requests.build(
            self._operation.method, self._path, None, frame, caller=caller
        )
        if self._prepare is not None:
            self._prepare(request, frame)
            requests.set_caller(request, caller)
        return self._operation.view_of(request)


def _check_before_call(view: Any) -> None:
    """Ask the permission classes of a view before its arguments and its data are known.

    Raises their exceptions, and OfCall.
    """
    view.kwargs = _Unknown()
    view.args = ()
    request: Any = view.request
    kind: Any = type(request)
    request.__class__ = _before_call(kind)
    view.check_permissions(request)


def _of_call(*_: Any, **__: Any) -> NoReturn:
    raise OfCall


class _Unknown(dict[str, Any]):
    """Arguments of the URL that cannot be read yet."""

    __getitem__ = __iter__ = __len__ = __contains__ = __bool__ = __eq__ = _of_call
    get = items = keys = values = pop = copy = _of_call
    __hash__ = None


OF_CALL = (
    *("data", "query_params", "GET", "POST", "FILES", "body", "stream", "content_type"),
    *("path", "path_info", "get_full_path", "build_absolute_uri", "resolver_match"),
)
"""The attributes of a request that are known at the call only."""


@cache
def _before_call(kind: Any) -> Any:
    """Return the class of a request that raises OfCall for attributes that only a call has.

    Attributes that it does not have yet count as such: middleware sets them.
    """

    def read(request: Any, name: str) -> Any:
        try:
            return kind.__getattr__(request, name)
        except AttributeError:
            if name.startswith("_"):
                raise
            raise OfCall from None

    members: dict[str, Any] = {name: property(_of_call) for name in OF_CALL}
    return type(kind.__name__, (kind,), {**members, "__getattr__": read})


def of_operation(operation: Operation, of_caller: Credentials, prepare: Any) -> ViewAccess | None:
    """Return the permission of a tool; None where the view lets in everybody."""
    guards = of_caller.guards
    is_for_all = guards.is_open and not guards.unknown and guards.is_like_site
    return None if is_for_all else ViewAccess(operation, of_caller, prepare)
