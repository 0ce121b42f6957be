"""Whom a tool is hidden from: callers whom the view refuses whatever they send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework.exceptions import APIException

from django_mcp.frame.frame import Frame
from django_mcp.protocol.errors import ToolError
from django_mcp.rest.calls import credentials, requests, responses
from django_mcp.rest.calls.credentials import Credentials
from django_mcp.rest.operations import Operation

OF_A_CALL = frozenset({"kwargs", "args", "data", "query_params", "GET", "POST", "body", "FILES"})
"""What a permission may read of a view or a request that is known at the call only."""


class ViewAccess:
    """The permission of a tool: what the permission classes of its view say before any call.

    The view asks them again at the call, with its arguments. An anonymous caller passes: the view
    answers that a login is needed. So does everybody where a class needs what is not known yet.
    """

    admits_anonymous = True
    is_of_caller = True

    def __init__(self, operation: Operation, of_caller: Credentials, prepare: Any) -> None:
        self._operation = operation
        self._credentials = of_caller
        self._prepare = prepare
        self._path = f"/{operation.route.path}"
        self.__module__ = operation.view_class.__module__
        self.__qualname__ = f"{operation.view_class.__qualname__}.check_permissions"

    def __call__(self, frame: Frame) -> bool:
        if responses.is_anonymous(frame):
            return True
        try:
            auth = self._credentials.request_auth(frame)
            request: Any = requests.build(
                self._operation.method, self._path, None, frame, auth=auth
            )
            if self._prepare is not None:
                self._prepare(request, frame)
                requests.set_caller(request, frame, auth)
            view = self._operation.view_of(request)
            view.check_permissions(view.request)
        except (APIException, Http404, PermissionDenied):
            return False
        except ToolError:
            return True  # The call explains which token is needed.
        except Exception:
            return True  # Only the call knows what the class needs.
        return True


class AnyAccess:
    """The permission of a tool with several operations: one of theirs is enough."""

    admits_anonymous = True
    is_of_caller = True

    def __init__(self, permissions: Sequence[Callable[[Frame], bool]]) -> None:
        self._permissions = permissions
        self.__qualname__ = "check_permissions"

    def __call__(self, frame: Frame) -> bool:
        return any(permission(frame) for permission in self._permissions)


def of_operation(
    operation: Operation, view: Any, of_caller: Credentials, prepare: Any
) -> ViewAccess | None:
    """Return the permission of a tool; None where the view asks nothing, or only at the call."""
    names = credentials.names_of_permissions(view)
    if names is None or names & OF_A_CALL:
        return None
    return ViewAccess(operation, of_caller, prepare)
