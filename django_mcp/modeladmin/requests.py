"""The request of a tool to a view of the admin, in the name of the caller.

It has the attributes that the site's own middleware has set on the request of the message: the
tenant, the language, the session. It has its own data, path and messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.messages import WARNING
from django.contrib.messages.storage.base import BaseStorage, Message
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, QueryDict
from django.urls import ResolverMatch, get_script_prefix
from django.utils import translation
from django.utils.datastructures import MultiValueDict
from django.utils.html import strip_tags

from django_mcp.openapi.calls import requests
from django_mcp.runtime.django_types.requests import of_caller

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

OF_MESSAGE = frozenset(
    {
        *("scope", "path", "path_info", "script_name", "method", "META", "GET", "POST", "FILES"),
        *(
            "COOKIES",
            "headers",
            "resolver_match",
            "content_type",
            "content_params",
            "accepted_types",
        ),
        *("_messages", "_post", "_files", "_body", "_stream", "_read_started", "_post_parse_error"),
        *("_upload_handlers", "_encoding", "_current_scheme_host", "accepted_types_by_precedence"),
        *("mcp_match", "mcp_failure"),
    }
)
"""Attributes that a request has of its own; all others were set by middleware."""


class AdminRequest(requests.RequestOfTool):
    """The request of a tool to a page of the admin."""

    mcp_scheme = "http"

    @property
    def scheme(self) -> str:
        return self.mcp_scheme

    def match_in(self, urlconf: Any) -> ResolverMatch:
        super().match_in(urlconf)
        return self.mcp_match

    def view_of(self, match: ResolverMatch) -> Any:
        """The identity of a page: Django's own attributes of the function, and its name."""
        view = match.func
        owner = getattr(view, "model_admin", getattr(view, "admin_site", None))
        return view if owner is None else (owner, view.__name__)


class CollectedMessages(BaseStorage):
    """The messages that a view of the admin adds, for the result of the tool."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        return [], True

    def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return []


class EmptySession(SessionBase):
    """The session of a caller without a browser: values that a view writes into it are lost."""

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None:
        self.modified = True

    def save(self, must_create: bool = False) -> None:
        self.modified = False

    def delete(self, session_key: str | None = None) -> None:
        self.clear()

    def load(self) -> dict[str, Any]:
        return {}


def build(
    frame: Frame,
    user: Any,
    path: str,
    *,
    of_message: HttpRequest | None = None,
    query: Mapping[str, Any] | None = None,
    data: MultiValueDict[str, Any] | None = None,
    files: MultiValueDict[str, Any] | None = None,
) -> AdminRequest:
    """Return the request of a caller to a path, without its match; with ``data`` it is a POST.

    ``of_message`` is the request that middleware has seen, by default the request of the message.
    """
    request = AdminRequest()
    of_message = frame.django_request if of_message is None else of_message
    kept = {name: value for name, value in vars(of_message).items() if name not in OF_MESSAGE}
    vars(request).update(kept)
    request.mcp_frame = frame
    request.mcp_scheme = requests.scheme_of(frame)
    request.method = "GET" if data is None else "POST"
    request.path = path
    request.path_info = f"/{path.removeprefix(get_script_prefix())}"
    request.GET = _query(query or {})
    request.META = _meta(request, frame, of_message)
    request.COOKIES = dict(of_message.COOKIES)
    if data is not None:
        request.POST = _query(dict(data.lists()))
        request.FILES = MultiValueDict() if files is None else files
    of_caller(request, user, frame.session)
    request.mcp_caller = {"user": request.user, "auser": request.auser}
    if not hasattr(request, "session"):
        request.session = EmptySession()
    request._messages = CollectedMessages(request)  # type: ignore[attr-defined]
    # No browser sends this request: there is nothing to forge.
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    request.LANGUAGE_CODE = translation.get_language() or settings.LANGUAGE_CODE
    return request


def messages_of(request: AdminRequest) -> list[str]:
    """Return the messages of a view to its user, as plain text."""
    texts = []
    for message in request._messages:  # type: ignore[attr-defined]
        text = plain_text(message.message)
        texts.append(f"{message.level_tag}: {text}" if message.level >= WARNING else text)
    return texts


def plain_text(html: Any) -> str:
    """Return the text of HTML, on one line."""
    return " ".join(unescape(strip_tags(str(html))).split())


def _query(values: Mapping[str, Any]) -> Any:
    query = QueryDict(mutable=True)
    for name, value in values.items():
        query.setlist(name, [*value] if isinstance(value, list | tuple) else [value])
    query._mutable = False
    return query


def _meta(request: AdminRequest, frame: Frame, of_message: HttpRequest) -> dict[str, Any]:
    host = requests.host_of(frame)
    name, _, port = host.partition(":")
    is_secure = request.mcp_scheme == "https"
    kept = {
        key: value
        for key, value in of_message.META.items()
        if key in ("HTTP_USER_AGENT", "HTTP_ACCEPT_LANGUAGE", "HTTP_X_FORWARDED_FOR")
    }
    return {
        **kept,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": get_script_prefix().rstrip("/"),
        "PATH_INFO": request.path_info,
        "QUERY_STRING": request.GET.urlencode(),
        "HTTP_HOST": host,
        "SERVER_NAME": name,
        "SERVER_PORT": port or ("443" if is_secure else "80"),
        "REMOTE_ADDR": requests.address_of(frame),
    }
