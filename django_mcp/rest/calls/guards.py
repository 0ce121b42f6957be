"""Requirements of a view on a caller's authentication: the classes that decide about requests.

Nothing is concluded from code. Classes of REST framework, of django-filter and of
django-oauth-toolkit are known; any other that guards a view may read ``request.auth``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rest_framework.permissions import AllowAny
from rest_framework.settings import api_settings

from django_mcp.core.components.base import ConfigurationError
from django_mcp.rest.operations import Operation

LIBRARY = "rest_framework."
KNOWN = frozenset(
    {
        "rest_framework.permissions",
        "rest_framework.filters",
        "django_filters.rest_framework.backends",
        "oauth2_provider.contrib.rest_framework.permissions",
    }
)
"""Modules with classes that read nothing of a token but ``scope``, ``is_valid`` and the like."""
BY_CLASS = ("IsAuthenticatedOrTokenHasScope",)
"""Classes that ask which authentication class has accepted a request: in a tool, none has."""
OF_VIEWS = (
    "initial",
    "perform_authentication",
    "check_permissions",
    "check_object_permissions",
    "get_permissions",
)
"""Methods of views that override permission classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The requirements of a view on a caller's authentication."""

    classes: frozenset[type] | None
    """Its authentication classes; None if it chooses them for each request."""
    unknown: tuple[str, ...]
    """The classes and methods that guard it and may read ``request.auth``."""
    is_open: bool
    """Whether its permission classes let in everybody."""

    @property
    def is_like_site(self) -> bool:
        """Whether the view accepts whoever the API accepts: it asks for no way of its own."""
        default = frozenset(api_settings.DEFAULT_AUTHENTICATION_CLASSES)
        return bool(default) and self.classes is not None and default <= self.classes


def of_view(operation: Operation, view: Any) -> Guards:
    """Return the guards of a view; raises ConfigurationError for one that no tool can have."""
    kind = type(view)
    overridden = [name for name in OF_VIEWS if not _is_of_library(kind, name)]
    if "get_permissions" in overridden:
        # It chooses them for a request: the declared ones are all that is known.
        declared = [each() for each in view.permission_classes]
    else:
        declared = view.get_permissions()
    permissions = [*_operands(declared)]
    for permission in permissions:
        bases = type(permission).__mro__
        if any(base.__name__ in BY_CLASS and base.__module__ in KNOWN for base in bases):
            raise ConfigurationError(
                f"{type(permission).__qualname__}, which guards {operation.where}, asks which "
                "authentication class has accepted the request: in the call of a tool none of the "
                "view's does. Use TokenHasScope, or leave the action out"
            )
    backends = [each() for each in getattr(view, "filter_backends", ())]
    guards = [*permissions, *backends]
    unknown = [type(each).__qualname__ for each in guards if not is_known(type(each))]
    methods = [f"{kind.__qualname__}.{name}" for name in overridden]
    has_own_classes = not _is_of_library(kind, "get_authenticators")
    return Guards(
        classes=None if has_own_classes else frozenset(map(type, view.get_authenticators())),
        unknown=(*dict.fromkeys(unknown), *methods),
        is_open=all(type(each) is AllowAny for each in permissions) and not methods,
    )


def are_known(permission: Any) -> bool:
    """Whether a permission, and each that it combines, is of a known class."""
    return all(is_known(type(each)) for each in _operands([permission]))


def is_known(kind: type) -> bool:
    """Whether a class is one of KNOWN, or derives from them and only sets values."""
    own = [base for base in kind.__mro__ if base.__module__ not in KNOWN and base is not object]
    return len(own) < len(kind.__mro__) - 1 and not any(map(_has_code, own))


def _has_code(kind: type) -> bool:
    members = vars(kind).items()
    return any(hasattr(value, "__get__") and name not in OF_ANY_CLASS for name, value in members)


OF_ANY_CLASS = ("__dict__", "__weakref__", "__annotate__", "__annotate_func__")
"""Descriptors that a class statement makes by itself."""


def _is_of_library(kind: type, name: str) -> bool:
    return str(inspect.unwrap(getattr(kind, name)).__module__).startswith(LIBRARY)


def _operands(permissions: Iterable[Any]) -> Iterator[Any]:
    """The permissions themselves, and those that ``&``, ``|`` and ``~`` combine."""
    for permission in permissions:
        yield permission
        members = vars(permission).values() if hasattr(permission, "__dict__") else ()
        yield from _operands(each for each in members if hasattr(each, "has_object_permission"))
