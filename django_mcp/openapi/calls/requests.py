"""The request of a tool to its view: a Django request in the name of the caller.

Nothing of the caller's own HTTP request is passed on, except the host for absolute URLs and the
IP address for throttles. Credentials do not reach the view: the caller is set.

A form with files reaches the parser of the view without being encoded. Whatever a name or a content
contains, it stays that name or content: it can neither contain a boundary nor add a header.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, QueryDict
from django.urls import ResolverMatch, get_resolver, get_script_prefix
from django.utils.datastructures import MultiValueDict

from django_mcp import conf
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import HttpTransport

JSON = "application/json"
ACCEPT = f"{JSON}, */*;q=0.1"

Files = MultiValueDict[str, Any]
"""Uploaded files."""

BOUNDARY = "form"


@dataclass(frozen=True, slots=True)
class FormData:
    """The fields and the files of a form, as a parser returns them."""

    fields: QueryDict
    files: Files

    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    body = f"--{BOUNDARY}--\r\n".encode()
    """An empty form, for a view that reads the bytes of the request itself."""

    def handler(self) -> FileUploadHandler:
        """Return the upload handler of a request with this form."""
        return _ParsedForm(self)


class _ParsedForm(FileUploadHandler):
    """Replaces the parsing of a form, as Django lets upload handlers do.

    ``MultiPartParser`` of REST framework and Django's own ``request.POST`` ask it.
    """

    def __init__(self, form: FormData) -> None:
        super().__init__()
        self._form = form

    def handle_raw_input(self, *_: Any, **__: Any) -> tuple[QueryDict, Files]:
        return self._form.fields, self._form.files


def form_of(values: Mapping[str, Any]) -> FormData:
    """Return the form of values: a list is several values of one field, null is left out."""
    fields = QueryDict(mutable=True)
    files: Files = MultiValueDict()
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, UploadedFile):
                files.appendlist(name, item)
            elif isinstance(item, bool | dict | list):
                fields.appendlist(name, json.dumps(item))  # A JSONField reads it.
            elif item is not None:
                fields.appendlist(name, str(item))
    return FormData(fields, files)


class Caller(NamedTuple):
    """The caller of a request."""

    user: Any
    attributes: Mapping[str, Any] = {}
    """Further attributes of the request that identify its caller for a framework."""
    headers: Mapping[str, str] = {}
    """The caller's credentials that the API itself has accepted, by name in lower case."""
    has_session: bool = False
    """Whether the request has the session of the caller, if they have one."""


def anonymous() -> Caller:
    """Return a caller without credentials."""
    return Caller(AnonymousUser())


class RequestOfTool(HttpRequest):
    """A request that a tool makes. ``mcp_frame`` is the Frame of the call."""

    mcp_frame: Frame
    mcp_caller: Mapping[str, Any]
    """The attributes that say who the caller is, whatever middleware sets."""
    mcp_match: ResolverMatch
    """The view that is called."""

    def match_in(self, urlconf: Any) -> ResolverMatch:
        """Return the view if a middleware has chosen another URLconf.

        Raises Http404 if another view is at the path there.
        """
        chosen = get_resolver(urlconf).resolve(self.path_info)
        if self.view_of(chosen) != self.view_of(self.mcp_match):
            raise Http404
        return chosen

    def view_of(self, match: ResolverMatch) -> Any:
        """The identity of a view: each URLconf may have a function of its own for one class."""
        return getattr(match.func, "cls", match.func)


class ToolRequest(RequestOfTool, ASGIRequest):
    """The request of a tool to a view of an API."""

    mcp_response: Any = None


def build(
    method: str,
    path: str,
    match: ResolverMatch | None,
    frame: Frame,
    *,
    caller: Caller | None = None,
    query: str = "",
    accept: str = ACCEPT,
    headers: Mapping[str, str] | None = None,
    content_type: str = "",
    body: bytes = b"",
    form: FormData | None = None,
) -> ToolRequest:
    """Return the request of a call, by default of an anonymous one.

    The path is below the prefix of the site, which URLs in the answer have. The body is bytes, or
    a form that is handed to the view without encoding it.
    """
    if form is not None:
        content_type = form.content_type
        body = form.body
    caller = anonymous() if caller is None else caller
    sent = {**(headers or {}), **caller.headers, "host": host_of(frame), "accept": accept}
    if content_type:
        sent |= {"content-type": content_type, "content-length": str(len(body))}
    prefix = get_script_prefix().rstrip("/")
    path_info = unquote(path)
    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "method": method.upper(),
        "scheme": scheme_of(frame),
        "path": f"{prefix}{path_info}",
        "raw_path": f"{prefix}{path}".encode(),
        "root_path": prefix,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": (address_of(frame), 0),
    }
    request = ToolRequest(scope, io.BytesIO(body))
    request.path_info = path_info
    request.resolver_match = match
    request.mcp_frame = frame
    # No browser sends this request: there is nothing to forge.
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    if form is not None:
        request.upload_handlers = [form.handler()]
    set_caller(request, caller)
    return request


def set_caller(request: Any, caller: Caller) -> None:
    """Set the caller, as AuthenticationMiddleware and an authenticator would do."""

    async def auser() -> Any:
        return caller.user

    request.mcp_caller = {"user": caller.user, "auser": auser, **caller.attributes}
    vars(request).update(request.mcp_caller)
    if caller.has_session:
        set_session(request)


def set_session(request: Any) -> None:
    """Set the session of the caller, if they have one, and its cookie."""
    session = request.mcp_frame.session
    if session is not None:
        request.session = session
        if session.session_key is not None:
            request.COOKIES[settings.SESSION_COOKIE_NAME] = session.session_key


def host_of(frame: Frame) -> str:
    """Return the host for absolute URLs: of BASE_URL, of the caller's request, or of the site.

    On a site with tenants, the host of the caller comes first: it may belong to the tenant.
    """
    site = conf.get()
    transport = frame.transport
    has_host = isinstance(transport, HttpTransport) and transport.host
    if site.base_url and not (site.tenant and has_host):
        return urlsplit(site.base_url).netloc
    if isinstance(transport, HttpTransport) and has_host:
        is_default = transport.port == DEFAULT_PORTS.get(transport.scheme)
        return transport.host if is_default else f"{transport.host}:{transport.port}"
    hosts = (host.lstrip(".") for host in settings.ALLOWED_HOSTS if "*" not in host)
    return next(hosts, "localhost")


DEFAULT_PORTS = {"http": 80, "https": 443}


def scheme_of(frame: Frame) -> str:
    if base := conf.get().base_url:
        return urlsplit(base).scheme
    return frame.transport.scheme if isinstance(frame.transport, HttpTransport) else "http"


def address_of(frame: Frame) -> str:
    """Return the IP address of anonymous callers for throttles."""
    transport = frame.transport
    remote = transport.remote_ip if isinstance(transport, HttpTransport) else None
    return remote or "127.0.0.1"
