"""``request.auth`` of a view: what its permission classes know of the token of the caller.

Over HTTP, an authentication class of the site returns it. A call of a tool has that very object if
``RESTFrameworkAuthentication`` has accepted the caller. Other callers have another token, or none,
and a permission class such as ``if isinstance(request.auth, Token) and not request.auth.may_write``
would let them do anything: such a view is called for them only with a declared substitute.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from rest_framework.permissions import AllowAny

from django_mcp.auth.base import Principal
from django_mcp.auth.rest_framework import SCHEME, RESTFrameworkPrincipal
from django_mcp.components.base import ConfigurationError
from django_mcp.forms.messages import tool_error
from django_mcp.frame.frame import Frame
from django_mcp.rest.calls import responses
from django_mcp.rest.operations import Operation

FindAuth = Callable[[Frame], Any]
"""Returns ``request.auth`` for callers without a token of the API."""

OF_VIEWS = ("initial", "check_permissions", "check_object_permissions", "get_permissions")
"""Methods by which views override what permission classes do."""
OF_ANY_CALL = ("check_permissions", "get_permissions")
"""Those that run before the arguments of a call matter."""
OF_LIBRARY = ("rest_framework.", "oauth2_provider.")
"""Modules whose classes read ``scope`` and ``is_valid`` of a token, which ``CallerAuth`` has."""
HTTP_METHODS = ("GET", "POST")
"""Strings that are compared to the method. The attributes of these names are data of a call."""
CALL_DEPTH = 3
"""How far functions are followed into functions of their module that they call by name."""

WITHOUT_TOKEN = (
    "This view decides by the API token of its caller. A call with other credentials, a task and "
    "an approved call have none."
)


class CallerAuth:
    """``request.auth`` of a view: what the access token of the caller allows.

    Its attributes are those by which permission classes read access tokens.
    """

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.scopes = principal.scopes
        self.claims = principal.claims

    @property
    def scope(self) -> str:
        """The scopes, separated by spaces."""
        return " ".join(sorted(self.scopes))

    def allow_scopes(self, scopes: Any) -> bool:
        """Return whether the token has all of ``scopes``."""
        return set(scopes) <= self.scopes

    is_valid = allow_scopes

    def is_expired(self) -> bool:
        """Return False: the authenticator of the server rejects an expired token."""
        return False


@dataclass(frozen=True)
class Credentials:
    """Where the calls of one operation have ``request.auth`` from."""

    reader: str | None
    """The permission class, or the method, that reads it; None if there is none."""
    substitute: FindAuth | None

    @property
    def needs_token(self) -> bool:
        """Whether only callers with a token of the API can call the view."""
        return self.reader is not None and self.substitute is None

    def request_auth(self, frame: Frame) -> Any:
        """Return ``request.auth`` for a call; raises ToolError where the view needs a token."""
        principal = frame.auth
        if isinstance(principal, RESTFrameworkPrincipal) and principal.scheme == SCHEME:
            return principal.request_auth
        if responses.is_anonymous(frame):
            return None
        if self.substitute is not None:
            return self.substitute(frame)
        if self.needs_token:
            raise tool_error(responses.SUMMARIES[403], [WITHOUT_TOKEN])
        return None if principal is None else CallerAuth(principal)


def of_operation(operation: Operation, view: Any, substitute: FindAuth | None) -> Credentials:
    """Return where ``request.auth`` comes from; raises ConfigurationError if it cannot be known."""
    code_of = dict(_guards(view))
    for name, code in code_of.items():
        if "successful_authenticator" in code.names:
            raise ConfigurationError(
                f"{name}, which guards {operation.where}, asks which authentication class has "
                "accepted the request: in the call of a tool none of the view's does. Let it read "
                "request.auth or request.user, or leave the action out"
            )
    return Credentials(_reader(code_of), substitute)


def of_permission(permission: Any) -> Credentials:
    """Return where ``request.auth`` of a permission comes from that is asked without a view."""
    return Credentials(_reader(dict(_codes([permission]))), substitute=None)


def names_of_permissions(view: Any) -> frozenset[str] | None:
    """Return the names in the code that decides who may call a view; None if everybody may."""
    try:
        permissions = view.get_permissions()
    except Exception:
        return None  # It may need a real request.
    kind: Any = type(view)
    kinds: list[Any] = [type(permission) for permission in _operands(permissions)]
    codes = [_code_before_a_call(each) for each in kinds]
    methods = [inspect.unwrap(getattr(kind, name)) for name in OF_ANY_CALL]
    own = [each for each in methods if not each.__module__.startswith(OF_LIBRARY)]
    is_open = all(type(each) is AllowAny for each in permissions) and not own
    if is_open:
        return None
    return frozenset().union(
        *(code.names for code in codes), *(_code_of_method(each).names for each in own)
    )


def _reader(code_of: Mapping[str, _Code]) -> str | None:
    """The first class or method of the site that reads ``request.auth``."""
    return next((name for name, code in code_of.items() if "auth" in code.own_names), None)


class _Code:
    """The code of a permission class, and of the functions that it calls."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self._functions = [each for each in functions if inspect.isfunction(each)]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(name for each in self._functions for name in _names(each))

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names in the code of the site, without that of libraries."""
        own = [each for each in self._functions if not each.__module__.startswith(OF_LIBRARY)]
        return frozenset(name for each in own for name in _names(each))


def _guards(view: Any) -> Iterator[tuple[str, _Code]]:
    """The classes that decide about a request to the view, and such methods of its own."""
    try:
        permissions = view.get_permissions()
    except Exception:  # It may need a real request.
        permissions = [each() for each in view.permission_classes]
    backends = [each() for each in getattr(view, "filter_backends", ())]
    yield from _codes([*permissions, *backends])
    kind = type(view)
    for name in OF_VIEWS:
        yield f"{kind.__qualname__}.{name}", _code_of_method(inspect.unwrap(getattr(kind, name)))


def _codes(guards: Iterable[Any]) -> Iterator[tuple[str, _Code]]:
    for guard in _operands(guards):
        kind: Any = type(guard)
        yield kind.__qualname__, _code_of(kind)


@lru_cache(maxsize=500)
def _code_of(kind: Any) -> _Code:
    """Return the code of a class, which many views of a large site have in common."""
    return _Code(_functions(kind))


@lru_cache(maxsize=500)
def _code_before_a_call(kind: Any) -> _Code:
    """Return the code of a permission class that decides without an object."""
    functions: dict[str, list[Any]] = {}
    for function in filter(inspect.isfunction, _functions(kind)):
        functions.setdefault(function.__name__, []).append(function)
    pending = ["has_permission"]
    reached: list[Any] = []
    while pending:
        called = functions.pop(pending.pop(), [])
        reached += called
        pending += [name for function in called for name in _names(function)]
    return _Code(reached)


@lru_cache(maxsize=500)
def _code_of_method(function: Any) -> _Code:
    return _Code([function])


def _operands(permissions: Iterable[Any]) -> Iterator[Any]:
    """The permissions themselves, and those that ``&``, ``|`` and ``~`` combine."""
    for permission in permissions:
        yield permission
        members = vars(permission).values() if hasattr(permission, "__dict__") else ()
        yield from _operands(each for each in members if hasattr(each, "has_object_permission"))


def _functions(kind: type) -> Iterator[Any]:
    for base in kind.__mro__:
        for member in vars(base).values():
            function = inspect.unwrap(getattr(member, "fget", None) or member)
            yield getattr(function, "__func__", function)


def _names(function: Any, depth: int = CALL_DEPTH) -> Iterator[str]:
    """Yield the names and the strings in a function, and in those of its module that it calls."""
    yield from _names_of_code(function.__code__)
    if depth == 0:
        return
    for name in {*_globals_of_code(function.__code__)}:
        called = function.__globals__.get(name)
        if inspect.isfunction(called):
            yield from _names(called, depth - 1)


def _globals_of_code(code: CodeType) -> Iterator[str]:
    """Yield the global names alone: ``view.action`` is not the function ``action`` of a module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of_code(constant)


def _names_of_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of_code(constant)
        elif isinstance(constant, str) and constant not in HTTP_METHODS:
            yield constant  # As in getattr(request, "auth", None).
