"""The caller of a view of Django Ninja: its ``auth=`` callbacks run in a call, and decide.

A callback reads its credentials from the request. The request of a tool has the credentials of the
caller, and no others, as over HTTP:

| caller | the request has |
|---|---|
| anonymous | nothing: the operation may ask for a login |
| logged in by Django, or a local account | their user and session |
| accepted by NinjaAuthentication | the header that its callback has accepted, if the operation \
has a callback that reads it |
| another | the headers that ``credentials`` returns; else their user, if ``authenticated_by`` has \
a callback of the operation, or if the operation has all callbacks of its API |

All others do not have the tool. An operation without callbacks answers them as it answers anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.ninja import SCHEME, NinjaAuthentication, NinjaPrincipal, accepts_like, kind_of
from django_mcp.core.auth.base import Authenticator
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.calls import responses
from django_mcp.openapi.calls.credentials import (
    OTHER_CLASS,
    FindHeaders,
    NotAccepted,
    is_logged_in,
    is_public,
    not_accepted,
    with_headers,
)
from django_mcp.openapi.calls.requests import Caller, anonymous

SESSION_KINDS = ("SessionAuth", "SessionAuthSuperUser", "SessionAuthIsStaff")
SESSION_MODULE = "ninja.security.session"
HTTP_MODULE = "ninja.security.http"
"""Callbacks of Django Ninja that read known credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NinjaCredentials:
    """As which callers the tool of one operation calls its view."""

    callbacks: Sequence[Any]
    of_api: Sequence[Any]
    """The callbacks of the API, for operations without their own."""
    authenticated_by: Sequence[Any] = ()
    find_headers: FindHeaders | None = None

    token_readers: Sequence[str] = ()

    @property
    def is_open(self) -> bool:
        """Whether the operation has no callbacks."""
        return not self.callbacks

    @property
    def accepted(self) -> Sequence[str]:
        """The names of the callbacks."""
        return [name_of(each) for each in self.callbacks]

    def caller(self, frame: Frame) -> Caller:
        """Return the caller as the view knows them; raises NotAccepted."""
        if responses.is_anonymous(frame):
            return anonymous()
        if is_logged_in(frame):
            return Caller(frame.user, has_session=True)
        principal = frame.auth
        if isinstance(principal, NinjaPrincipal) and self._reads(principal.callback):
            return with_headers(dict(principal.credentials))
        headers = None if self.find_headers is None else self.find_headers(frame)
        if headers is not None:
            return with_headers(headers)
        is_of_ninja = principal is not None and principal.scheme == SCHEME
        if self._counts_as_logged_in and not is_of_ninja:
            return Caller(frame.user)
        if self.is_open:
            return anonymous()
        raise not_accepted(WITHOUT_CREDENTIALS if is_of_ninja else OTHER_CLASS)

    def _reads(self, accepted: Any) -> bool:
        """Whether a callback of the operation reads the credentials that another one accepted."""
        return any(accepts_like(each, accepted) for each in self.callbacks)

    @property
    def _counts_as_logged_in(self) -> bool:
        kinds = [kind_of(each) for each in self.callbacks]
        default = [kind_of(each) for each in self.of_api]
        is_like_api = bool(default) and all(kind in kinds for kind in default)
        return is_like_api or any(kind_of(each) in kinds for each in self.authenticated_by)

    def asks_for_token(self, authenticator: Authenticator) -> bool:
        """Return False: the callbacks decide."""
        return False

    def asks_for_class(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator do not have the tool."""
        if self.is_open or is_public(authenticator) or self.find_headers is not None:
            return False
        if isinstance(authenticator, DjangoSessionAuthentication):
            return False
        if isinstance(authenticator, NinjaAuthentication):
            return not any(map(self._reads, authenticator.callbacks))
        return not self._counts_as_logged_in


WITHOUT_CREDENTIALS = (
    "This view decides by credentials of the API. A call with others, a task and an approved call "
    "have none."
)


class NinjaAccess:
    """The permission of a tool: the answer of the callbacks, as far as it is known before a call.

    Callbacks of Django Ninja itself for sessions read the user alone, and those for HTTP accept
    nobody without the header. Any other callback is not asked before the call.
    """

    is_of_caller = True

    def __init__(self, credentials: NinjaCredentials, where: str) -> None:
        self._credentials = credentials
        self.__qualname__ = f"{where} auth"

    @property
    def admits_anonymous(self) -> bool:
        """Whether the operation has no callbacks."""
        return self._credentials.is_open

    def __call__(self, frame: Frame) -> bool:
        if responses.is_anonymous(frame):
            return True
        try:
            caller = self._credentials.caller(frame)
        except ToolError as error:
            return not isinstance(error, NotAccepted)
        callbacks = self._credentials.callbacks
        if not callbacks or caller.headers:
            return True
        return any(_may_accept(each, caller.user) for each in callbacks)


def _may_accept(callback: Any, user: Any) -> bool:
    """Whether a callback may accept a request of this user without other credentials."""
    kind = type(callback)
    if kind.__module__ == SESSION_MODULE and kind.__name__ in SESSION_KINDS:
        return bool(callback.authenticate(SessionRequest(user), None))
    calls = (vars(base).get("__call__") for base in kind.__mro__)
    own = next(filter(None, calls), None)
    return getattr(own, "__module__", "") != HTTP_MODULE


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The attributes of a request for callbacks of sessions."""

    user: Any


def name_of(callback: Any) -> str:
    """Return the name of a callback for messages: of its class, or of the function."""
    return str(getattr(callback, "__name__", type(callback).__name__))
