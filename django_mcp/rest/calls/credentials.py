"""``request.user`` and ``request.auth`` of a view: as which caller of the API a tool calls it.

Over HTTP, an authentication class of the view accepts the caller. The same conditions are known to
hold in the call of a tool, or the tool is left out for this caller:

| caller | the view accepts this way in | ``request.auth`` |
|---|---|---|
| anonymous | always | as REST framework sets it |
| anybody, and the view has no authentication classes | always: they are anonymous | the same |
| of RESTFrameworkAuthentication | if the class that accepted them is among the view's | its token |
| logged in by Django, as SessionAuthentication accepts them | if that is among the view's | None |
| another | if the view accepts all that the API does, or by ``authenticated_by`` | ``auth`` says, \
else what ``CallerAuth`` has, where all that guards the view is known |

Nothing of this is concluded from the code of a view: see ``guards``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string
from rest_framework.authentication import SessionAuthentication

from django_mcp import conf, registry
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.rest_framework import (
    SCHEME,
    RESTFrameworkAuthentication,
    RESTFrameworkPrincipal,
)
from django_mcp.core.auth.base import Authenticator, Principal
from django_mcp.core.frame.frame import Frame
from django_mcp.forms.fields import tool_error
from django_mcp.openapi.calls import responses
from django_mcp.openapi.calls.credentials import (
    OTHER_CLASS,
    SESSION_SCHEME,
    is_public,
    not_accepted,
)
from django_mcp.openapi.calls.requests import Caller
from django_mcp.rest.calls import guards
from django_mcp.rest.calls.guards import Guards
from django_mcp.rest.operations import Operation, forced, unauthenticated

FindAuth = Callable[[Frame], Any]
"""Returns ``request.auth`` for callers without a token of the API."""

WITHOUT_TOKEN = (
    "This view decides by the API token of its caller. A call with other credentials, a task and "
    "an approved call have none."
)


class CallerAuth:
    """``request.auth`` of a view: the scopes of the caller's access token.

    It has the attributes of access tokens that permission classes read.
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


def without_token(frame: Frame) -> None:
    """Return None, which REST framework sets for a login by session: a value for ``auth=``."""
    return None


def scopes_of_caller(frame: Frame) -> Any:
    """Return an object with the scopes of the caller's token: a value for ``auth=``."""
    return None if frame.auth is None else CallerAuth(frame.auth)


def caller_with(user: Any, auth: Any) -> Caller:
    """Return a caller whom REST framework takes as authenticated."""
    return Caller(user, forced(user, auth))


def anonymous() -> Caller:
    """Return a caller without credentials, as REST framework is set to describe one."""
    return caller_with(*unauthenticated())


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """As which callers the tool of one operation calls its view."""

    guards: Guards
    substitute: FindAuth | None = None
    """Returns ``request.auth`` for callers whom no class of the API has accepted."""
    authenticated_by: frozenset[type] = frozenset()
    """The authentication classes of the view that such callers count for."""

    def caller(self, frame: Frame) -> Caller:
        """Return the caller as the view knows them; raises NotAccepted."""
        if responses.is_anonymous(frame) or self.guards.classes == frozenset():
            return anonymous()
        principal = frame.auth
        if isinstance(principal, RESTFrameworkPrincipal) and principal.scheme == SCHEME:
            if not self._accepts({principal.authentication_class}):
                raise not_accepted(OTHER_CLASS)
            return caller_with(user_of(frame), principal.request_auth)
        if principal is not None and not self._accepts_way(frame, principal):
            raise not_accepted(OTHER_CLASS)
        return caller_with(user_of(frame), self._auth_of_other(frame, principal))

    @property
    def token_readers(self) -> Sequence[str]:
        """The guards of the view that may read ``request.auth``."""
        return self.guards.unknown

    @property
    def accepted(self) -> Sequence[str]:
        """The names of the authentication classes of the view."""
        names = sorted(kind.__name__ for kind in self.guards.classes or ())
        return names or ("get_authenticators()",)

    def asks_for_token(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator are refused because they have no token of the API."""
        is_of_api = isinstance(authenticator, RESTFrameworkAuthentication)
        if is_of_api or self._is_session(isinstance(authenticator, DjangoSessionAuthentication)):
            return False
        return not is_public(authenticator) and self._needs_token

    def asks_for_class(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator are refused because of their authentication class."""
        if self.guards.classes == frozenset() or is_public(authenticator):
            return False
        if isinstance(authenticator, RESTFrameworkAuthentication):
            return not self._accepts(authenticator.classes)
        is_session = isinstance(authenticator, DjangoSessionAuthentication)
        return not (self._is_session(is_session) or self._accepts_others)

    @property
    def _needs_token(self) -> bool:
        return bool(self.guards.unknown) and self.substitute is None

    @property
    def _accepts_others(self) -> bool:
        """Whether the view accepts callers whom no class of the API has accepted."""
        if self.guards.is_like_site:
            return True
        classes = self.guards.classes
        return bool(self.authenticated_by if classes is None else self.authenticated_by & classes)

    def _accepts(self, classes: Iterable[type | None]) -> bool:
        of_view = self.authenticated_by if self.guards.classes is None else self.guards.classes
        return set(classes) <= of_view

    def _is_session(self, is_by_session: bool) -> bool:
        return is_by_session and self._accepts({SessionAuthentication})

    def _accepts_way(self, frame: Frame, principal: Principal) -> bool:
        if principal.scheme == SCHEME:
            # As tasks and approvals store it. One of the classes of the server has accepted it.
            server: Any = frame.server
            classes: set[type | None] = set()
            for authenticator in registry.authenticators(server):
                if isinstance(authenticator, RESTFrameworkAuthentication):
                    classes |= {*authenticator.classes}
            return bool(classes) and self._accepts(classes)
        return self._is_session(principal.scheme == SESSION_SCHEME) or self._accepts_others

    def _auth_of_other(self, frame: Frame, principal: Principal | None) -> Any:
        if self.substitute is not None:
            return self.substitute(frame)
        if principal is not None and self._is_session(principal.scheme == SESSION_SCHEME):
            return None
        if self._needs_token:
            if principal is not None and principal.scheme == SCHEME:
                # A task, or an approved call, of a caller who had a token: say why it fails.
                raise tool_error(responses.SUMMARIES[403], [WITHOUT_TOKEN])
            raise not_accepted(WITHOUT_TOKEN)
        return scopes_of_caller(frame)


def user_of(frame: Frame) -> Any:
    """Return ``request.user`` for the caller of a tool."""
    is_unknown = frame.user is None or responses.is_anonymous(frame)
    return unauthenticated()[0] if is_unknown else frame.user


def auth_for(permission: Any, frame: Frame) -> Any:
    """Return ``request.auth`` for the permission of a component, without a view.

    Raises NotAccepted where the attributes that the permission reads are unknown.
    """
    principal = frame.auth
    if principal is None or responses.is_anonymous(frame):
        return unauthenticated()[1]
    if isinstance(principal, RESTFrameworkPrincipal) and principal.scheme == SCHEME:
        return principal.request_auth
    if substitute := _of_site():
        return substitute(frame)
    if principal.scheme == SESSION_SCHEME:
        return None
    if not guards.are_known(permission):
        raise not_accepted(WITHOUT_TOKEN)
    return CallerAuth(principal)


def of_operation(
    operation: Operation,
    view: Any,
    substitute: FindAuth | None,
    authenticated_by: Iterable[type | str] = (),
) -> Credentials:
    """Return as whom an operation is called; raises ConfigurationError if it cannot be known."""
    return Credentials(
        guards=guards.of_view(operation, view),
        substitute=substitute or _of_site(),
        authenticated_by=frozenset(
            import_string(each) if isinstance(each, str) else each for each in authenticated_by
        ),
    )


def _of_site() -> FindAuth | None:
    named = conf.get().rest_auth
    substitute: FindAuth | None = None if named is None else import_string(named)
    return substitute
