"""Permission classes of REST framework as the permission of a component.

``has_permission`` is asked, with a request and a view that stand for the component:

| attribute | value |
|---|---|
| ``request`` | REST framework's Request, without a body and a query |
| ``request.method`` | GET for resources, prompts and tools with ``read_only=True``, else POST |
| ``request.user`` | the user of the Frame |
| ``request.auth`` | the result of the site's authentication class, as for the view of a tool; a \
class that reads it where it is unknown refuses the caller |
| ``view.action`` | the name of the component |
| ``view.kwargs`` | empty: a permission is asked before the arguments are known |
| ``request.mcp_frame`` | the Frame |

A class that needs more of a view, such as its query set, fails: the component is then hidden.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import ResolverMatch
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from django_mcp.core.components.declaration import ViewPermission
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.calls import requests
from django_mcp.openapi.calls.credentials import NotAccepted
from django_mcp.rest.calls import credentials


def _refuse(*_: Any) -> NoReturn:
    raise NotAccepted(credentials.WITHOUT_TOKEN)


class RequestWithoutAuth(Request):  # type: ignore[misc]
    """A request of a caller with an unknown ``request.auth``."""

    auth = property(_refuse, Request.auth.fset)
    successful_authenticator = property(_refuse)


class ComponentView:
    """The view for a permission class."""

    detail = False
    args = ()

    def __init__(self, action: str, request: Request) -> None:
        self.action = action
        self.request = request
        self.kwargs: dict[str, Any] = {}


def has_permission(declared: ViewPermission, frame: Frame) -> Any:
    """Return the answer of the permission class, which may be awaitable; False if it refuses."""
    is_instance = hasattr(declared.permission, "has_permission") and not isinstance(
        declared.permission, type
    )
    permission = declared.permission if is_instance else declared.permission()
    try:
        request = _request(declared, permission, frame)
        return permission.has_permission(request, ComponentView(declared.component, request))
    except (APIException, Http404, PermissionDenied, ToolError):
        return False


def _request(declared: ViewPermission, permission: Any, frame: Frame) -> Request:
    kind: Any = Request
    auth = None
    try:
        auth = credentials.auth_for(permission, frame)
    except NotAccepted:
        kind = RequestWithoutAuth
    caller = credentials.caller_with(credentials.user_of(frame), auth)
    match = ResolverMatch(has_permission, (), {})
    return kind(requests.build(declared.method, "/", match, frame, caller=caller))
