"""The caller of a view that is known by a document only.

| caller | the operation | the request has |
|---|---|---|
| anonymous | any | no credentials: the view may ask for a login |
| logged in by Django, or a local account | without security, or with the session | their user and \
session |
| another | ``credentials`` returns headers | these headers, and nobody logged in |
| another | one of ``authenticated_by``, or "session" there | their user, as if logged in |
| another | without security | no credentials, as such a request over HTTP |

All others do not have the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.core.auth.base import Authenticator
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import ToolError
from django_mcp.forms.fields import tool_error
from django_mcp.openapi.calls import responses
from django_mcp.openapi.calls.requests import Caller, anonymous

FindHeaders = Callable[[Frame], Mapping[str, str] | None]
"""Returns the headers that identify a caller for the API; None if it does not know them."""

SESSION_SCHEME = "django_session"
"""The scheme of callers whom Django's session says."""
SESSION = "session"
"""The name of Django's session in ``authenticated_by``."""

OTHER_CLASS = "This view does not accept callers who were authenticated like this one."


class NotAccepted(ToolError):
    """The view does not accept callers who came in like this one, or nobody has said so."""


def not_accepted(reason: str = OTHER_CLASS) -> NotAccepted:
    """Return the error for a caller whom a view does not accept."""
    return NotAccepted(str(tool_error(responses.SUMMARIES[403], [reason])))


def is_logged_in(frame: Frame) -> bool:
    """Whether the caller is logged in by Django, or is a local account."""
    return frame.auth is None or frame.auth.scheme == SESSION_SCHEME


def with_headers(headers: Mapping[str, str]) -> Caller:
    """Return a caller whom these headers identify, and nothing else."""
    sent = {name.lower(): value for name, value in headers.items()}
    return anonymous()._replace(headers=sent)


def is_public(authenticator: Authenticator) -> bool:
    """Whether an authenticator accepts nobody but anonymous callers."""
    return bool(getattr(authenticator, "accepts_all", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCredentials:
    """As which callers the tool of an operation in a document calls its view."""

    security: Sequence[frozenset[str]] | None
    session_schemes: frozenset[str]
    """The security schemes that are Django's session."""
    authenticated_by: frozenset[str] = frozenset()
    """The schemes that callers with other credentials count for."""
    find_headers: FindHeaders | None = None

    token_readers: Sequence[str] = ()

    @property
    def accepted(self) -> Sequence[str]:
        """The names of the security schemes."""
        return sorted({name for names in self.security or () for name in names})

    def caller(self, frame: Frame) -> Caller:
        """Return the caller as the view knows them; raises NotAccepted."""
        if responses.is_anonymous(frame):
            return anonymous()
        if is_logged_in(frame) and self._accepts(self.session_schemes):
            return Caller(frame.user, has_session=True)
        headers = None if self.find_headers is None else self.find_headers(frame)
        if headers is not None:
            return with_headers(headers)
        if self._counts_as_logged_in:
            return Caller(frame.user)
        if self.is_open:
            return anonymous()
        raise not_accepted()

    @property
    def is_open(self) -> bool:
        """Whether the operation needs no credentials."""
        return self.security is None or frozenset() in self.security

    @property
    def _counts_as_logged_in(self) -> bool:
        # Operations without security, or with an optional one, say nothing about these callers.
        is_by_name = any(
            needed and needed <= self.authenticated_by for needed in self.security or ()
        )
        return is_by_name or (
            SESSION in self.authenticated_by and self._accepts(self.session_schemes)
        )

    def _accepts(self, names: Collection[str]) -> bool:
        return self.security is None or any(needed <= set(names) for needed in self.security)

    def asks_for_token(self, authenticator: Authenticator) -> bool:
        """Return False: the attributes of tokens that a view reads are not known."""
        return False

    def asks_for_class(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator do not have the tool."""
        if self.is_open or is_public(authenticator) or self.find_headers is not None:
            return False
        is_session = isinstance(authenticator, DjangoSessionAuthentication)
        if is_session and self._accepts(self.session_schemes):
            return False
        return not self._counts_as_logged_in


class CallerAccess:
    """The permission of a tool whose view decides at the call: it has to accept the caller."""

    is_of_caller = True

    def __init__(self, credentials: Any, where: str) -> None:
        self._credentials = credentials
        self.__qualname__ = where

    @property
    def admits_anonymous(self) -> bool:
        """Whether the operation says that it needs no credentials."""
        return bool(self._credentials.is_open)

    def __call__(self, frame: Frame) -> bool:
        if responses.is_anonymous(frame):
            return True
        try:
            self._credentials.caller(frame)
        except NotAccepted:
            return False
        return True


def session_schemes(schemes: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the security schemes that are Django's session, and its CSRF token."""
    cookies = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return frozenset(
        name
        for name, scheme in schemes.items()
        if (scheme.get("in") == "cookie" and scheme.get("name") in cookies)
        or str(scheme.get("name", "")).lower() == "x-csrftoken"
    )
