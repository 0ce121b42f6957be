"""Operations: one action of a view set, or one method of a view, at one route."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.viewsets import ViewSetMixin

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.declaration import snake_case
from django_mcp.openapi.routes import Route, routes_of
from django_mcp.rest.serializers import has_constant_fields, shared

logger = logging.getLogger("django_mcp")

ACTIONS: Mapping[str, str] = {
    "list": "get",
    "retrieve": "get",
    "create": "post",
    "update": "put",
    "partial_update": "patch",
    "destroy": "delete",
}
"""The methods of the actions that routers know."""

READING = ("list", "retrieve")
"""The actions that are tools unless others are named."""

METHODS = frozenset({"get", "post", "put", "patch", "delete"})
WITH_BODY = frozenset({"post", "put", "patch"})
SUFFIXES = ("_view_set", "_viewset", "_api_view", "_view", "_api")


@dataclass(frozen=True)
class Operation:
    """One action, or method, of a view at one route."""

    view_class: Any
    method: str
    action: str
    """The name of the method of the view: "list" of a view set, "post" of a view."""
    route: Route
    is_described_with_body: bool = False
    """Whether a DELETE has data: of several objects, for instance."""

    @property
    def where(self) -> str:
        return f"{self.view_class.__module__}.{self.view_class.__qualname__}.{self.action}"

    @property
    def is_extra(self) -> bool:
        """Whether it is an ``@action`` of a view set."""
        return is_viewset(self.view_class) and self.action not in ACTIONS

    @property
    def has_body(self) -> bool:
        return self.method in WITH_BODY or self.is_described_with_body

    @property
    def function(self) -> Any:
        return getattr(self.view_class, self.action)

    def view(self) -> Any:
        """Return a view as it would process a request of an anonymous caller.

        ``swagger_fake_view`` says that only its schema is read, as it does for drf-spectacular.
        """
        view = self.view_of(schema_request(self.method), swagger_fake_view=True)
        keep_context(view)
        return view

    def view_of(self, request: HttpRequest, **attributes: Any) -> Any:
        """Return the view as it is before it handles ``request``, without arguments of the URL."""
        view = self.view_class(**self.route.callback.initkwargs)
        view.args = ()
        view.kwargs = {}
        view.format_kwarg = None
        vars(view).update(attributes)
        if is_viewset(self.view_class):
            view.action_map = self.route.callback.actions
        view.request = view.initialize_request(request)
        return view

    def serializer(self, view: Any) -> Any:
        """Return the serializer of a view for its schema; raises whatever the view raises.

        ``get_serializer`` is not called: views override it to read rows for the caller.
        """
        kind = view.get_serializer_class()
        if has_constant_fields(kind):
            return shared(kind)
        return kind(context=view.get_serializer_context())


def keep_context(view: Any) -> None:
    """Let a view make the context of its serializers once: some read the database for it."""
    if hasattr(view, "get_serializer_context"):
        view.get_serializer_context = partial(
            _copied, cache(partial(_or_plain, view, view.get_serializer_context))
        )


def _copied(get_context: Any) -> dict[str, Any]:
    return {**get_context()}


def _or_plain(view: Any, get_context: Any) -> dict[str, Any]:
    """Return the context of a serializer, or the default context where the view's own raises.

    Without a request, it may lack a tenant or an object. Fields that need them raise.
    """
    try:
        context: dict[str, Any] = get_context()
    except DatabaseError:
        raise  # Tables may not exist yet.
    except Exception as error:
        where = type(view).__qualname__
        logger.debug("%s.get_serializer_context() raised %r: a plain one is used", where, error)
        return {"request": view.request, "format": None, "view": view}
    return context


def schema_request(method: str) -> HttpRequest:
    request = HttpRequest()
    request.method = method.upper()
    force_user(request, *unauthenticated())
    return request


def unauthenticated() -> tuple[Any, Any]:
    """Return the user and the token of a request without credentials, as the site has set them."""
    settings = (api_settings.UNAUTHENTICATED_USER, api_settings.UNAUTHENTICATED_TOKEN)
    user, token = (None if make is None else make() for make in settings)
    return user, token


def force_user(request: Any, user: Any, auth: Any) -> None:
    """Set the caller of a request, so that no authenticator of a view is asked.

    This is how ``force_authenticate`` of REST framework's own tests works.
    """
    request.user = user
    vars(request).update(forced(user, auth))


def forced(user: Any, auth: Any) -> dict[str, Any]:
    """Return the attributes of a request that say who its caller is."""
    return {"_force_auth_user": user, "_force_auth_token": auth}


def check_forced_user() -> None:
    """Raise RuntimeError if the installed REST framework ignores ``force_user``."""
    request = HttpRequest()
    user = AnonymousUser()
    force_user(request, user, None)
    if Request(request, authenticators=[_Unexpected()]).user is not user:
        raise RuntimeError(
            "This version of Django REST framework does not let django_mcp.rest set the caller"
        )


class _Unexpected:
    def authenticate(self, request: Any) -> None:
        return None


def is_viewset(view_class: Any) -> bool:
    return issubclass(view_class, ViewSetMixin)


def view_class_of(view: Any) -> Any:
    """Return the class of a view: a class, or a function of ``@api_view`` or ``as_view``."""
    view_class = view if isinstance(view, type) else getattr(view, "cls", None)
    if view_class is None or not hasattr(view_class, "initialize_request"):
        raise ConfigurationError(f"{view!r} is no view of Django REST framework")
    return view_class


def actions_of(view_class: Any, names: Sequence[str] | None) -> Sequence[str]:
    """Return the named actions, by default those that read; raises ConfigurationError."""
    if names is None:
        return [name for name in READING if hasattr(view_class, name)]
    if isinstance(names, str):
        raise ConfigurationError(f"actions is the string {names!r}: give a list of names")
    for name in names:
        if name not in ACTIONS and not callable(getattr(view_class, name, None)):
            extra = {each.__name__ for each in view_class.get_extra_actions()}
            present = extra | {each for each in ACTIONS if hasattr(view_class, each)}
            raise ConfigurationError(
                f"{view_class.__qualname__} has no action {name!r}: there are "
                f"{', '.join(sorted(present))}"
            )
        if not hasattr(view_class, name):
            raise ConfigurationError(f"{view_class.__qualname__} has no method {name!r}")
    return names


def viewset_operation(view_class: Any, action: str, choose: Mapping[str, Any]) -> Operation:
    """Return the operation of an action; raises ConfigurationError without exactly one route."""
    routes = [
        route for route in routes_of(view_class) if action in actions_by_method(route).values()
    ]
    where = f"{view_class.__qualname__}.{action}"
    route = only(where, routes, choose)
    # ``as_view`` adds HEAD to the mapping, with the action of GET.
    mapped = [name for name, each in actions_by_method(route).items() if each == action]
    methods = [name for name in mapped if name in METHODS & allowed_methods(route)]
    if not methods:
        raise _not_allowed(where)
    return Operation(view_class, methods[0], action, route)


def allowed_methods(route: Route) -> set[str]:
    """Return the methods that the view answers at a route, in lower case."""
    callback = route.callback
    names = callback.initkwargs.get("http_method_names", callback.cls.http_method_names)
    return {name.lower() for name in names}


def _not_allowed(where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} cannot be called: http_method_names of the view does not have its method"
    )


def operation_at(
    view_class: Any, method: str, action: str, routes: Sequence[Route], choose: Mapping[str, Any]
) -> Operation:
    """Return the operation at one of ``routes``; raises ConfigurationError for several."""
    where = f"{view_class.__qualname__}.{action}"
    return Operation(view_class, method, action, only(where, routes, choose))


def actions_by_method(route: Route) -> Mapping[str, str]:
    return getattr(route.callback, "actions", None) or {}


def view_operation(view: Any, method: str, choose: Mapping[str, Any]) -> Operation:
    """Return the operation of a method of a view; raises ConfigurationError."""
    view_class = view_class_of(view)
    method = method.lower()
    if is_viewset(view_class):
        raise ConfigurationError(f"{view_class.__qualname__} is a view set: use rest_tools")
    if method not in METHODS or not hasattr(view_class, method):
        raise ConfigurationError(f"{view_class.__qualname__} has no method {method!r}")

    route = only(view_class.__qualname__, [*routes_of(view_class)], choose)
    if method not in allowed_methods(route):
        raise _not_allowed(f"{view_class.__qualname__}.{method}")
    return Operation(view_class, method, method, route)


def only(what: str, routes: Sequence[Route], choose: Mapping[str, Any]) -> Route:
    """Return the route that the author chooses, else the first; raises ConfigurationError."""
    prefix = choose.get("prefix") or ""
    kwargs = choose.get("kwargs") or {}
    beginning = prefix.lstrip("/")
    fitting = [
        route
        for route in routes
        if route.path.startswith(beginning) and set(kwargs) <= set(route.names)
    ]
    if fitting:
        return fitting[0]
    if paths := ", ".join(route.path for route in routes):
        needed = f" with the arguments {', '.join(kwargs)}" if kwargs else ""
        raise ConfigurationError(
            f"{what} has no URL{f' below {prefix}' if prefix else ''}{needed}: its URLs are {paths}"
        )
    raise ConfigurationError(
        f"{what} has no URL: add it to the URLconf. A tool calls a view as a request to its URL "
        "does"
    )


def base_name(view_class: Any) -> str:
    """Return the name of a view without its suffix: TicketViewSet is ticket."""
    name = snake_case(view_class.__name__)
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def default_name(view_class: Any, method: str, action: str) -> str:
    """Return "ticket_list" for the action of a view set, "report" for a view."""
    name = base_name(view_class)
    if is_viewset(view_class):
        return f"{name}_{action}"
    return name if method == "get" else f"{name}_{method}"
