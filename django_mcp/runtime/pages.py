"""Common parts of the package's pages for users: protection, header, and their URLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth import logout
from django.contrib.sites.shortcuts import get_current_site
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect

from django_mcp import conf
from django_mcp.auth.resource import base_url
from django_mcp.core.frame.transport import HttpTransport, Transport
from django_mcp.runtime import connections

LOG_OUT = "log_out"
"""The name of the button in the header that logs the user out."""

PAGES: Mapping[str, Promise] = {
    "django_mcp_oauth:access": _("Connected programs"),
    "django_mcp_tokens:list": _("Access tokens"),
    "django_mcp_approvals:list": _("Approvals"),
    "django_mcp_events:list": _("Notifications"),
}
"""The pages that link to each other, by the names of their views. A site has some of them."""


@method_decorator([xframe_options_deny, csrf_protect], name="dispatch")
class ProtectedPage:
    """A page which no other site may show in a frame or post to, and which is not cached.

    It sends no Content-Security-Policy: the middleware of a site leaves out its own, which is
    stricter, where a view has set one. X-Frame-Options forbids frames, and an element ``meta`` of
    the page adds ``base-uri``. It has no ``form-action``: browsers apply it to the redirect of a
    consent, which may have a scheme of the program.

    A post of the button "Not you? Log out" ends the session of the user and asks for the page
    again, which sends the next user to the login.
    """

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and LOG_OUT in request.POST:
            logout(request)
            return HttpResponseRedirect(request.get_full_path())
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        response.headers["Referrer-Policy"] = "same-origin"
        add_never_cache_headers(response)
        if isinstance(request, ASGIRequest):
            _close_connections_after(response)
        return response


def _close_connections_after(response: HttpResponseBase) -> None:
    """Close the connections of the thread that serves a page, once it is sent.

    Under ASGI, Django gives each request a thread, which ends without closing what CONN_MAX_AGE
    keeps open.
    """
    close = response.close

    def close_all() -> None:
        close()
        connections.close_unused()

    response.close = close_all  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page for users."""

    url: str
    title: Promise
    is_current: bool


@dataclass(frozen=True, slots=True)
class Page:
    """The values in the header of a page."""

    site_name: str
    home: str
    links: tuple[PageLink, ...]
    username: str = ""


def page(request: HttpRequest | None) -> Page:
    """Return the values of the header in the response to ``request``."""
    if request is None:
        return Page(site_name="", home=get_script_prefix(), links=())
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return Page(site_name=site_name(request), home=get_script_prefix(), links=())
    return Page(
        site_name=site_name(request),
        home=get_script_prefix(),
        links=tuple(page_links(request.path)),
        username=user.get_username(),
    )


def site_name(request: HttpRequest) -> str:
    """Return TITLE, else the name that Django's sites framework has, else the host."""
    title = conf.get().title
    if title is not None:
        return title
    try:
        return str(get_current_site(request).name)
    except (ObjectDoesNotExist, ImproperlyConfigured):
        # The sites framework is installed, and does not know this site.
        return request.get_host()


def page_links(current_path: str = "") -> Iterator[PageLink]:
    """Yield links to the pages which are in the URL configuration of the site."""
    for view, title in PAGES.items():
        url = page_url(view)
        if url is not None:
            yield PageLink(url, title, url == current_path)


def page_url(view: str, **kwargs: str) -> str | None:
    """Return the path of a page, or None if the site does not have it."""
    try:
        return reverse(view, kwargs=kwargs)
    except NoReverseMatch:
        return None


def absolute_url(transport: Transport | None, view: str, **kwargs: str) -> str:
    """Return the URL of a page of the site, for the client that ``transport`` connects.

    Raises NoReverseMatch, and ImproperlyConfigured where neither BASE_URL nor a request over HTTP
    names the host of the site.
    """
    path = reverse(view, kwargs=kwargs)[len(get_script_prefix()) :]
    return f"{_base_url(transport)}/{path}"


def _base_url(transport: Transport | None) -> str:
    if isinstance(transport, HttpTransport):
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in transport.req_headers
        ]
        return base_url({"headers": headers, "scheme": transport.scheme})
    configured = conf.get().base_url
    if configured is None:
        raise ImproperlyConfigured(
            'A URL is sent to a client that does not use HTTP: set DJANGO_MCP["BASE_URL"] to the '
            "public URL of the site."
        )
    return configured


def in_words(scopes: Iterable[str]) -> list[str]:
    """Descriptions of scopes, as the site has them: SCOPES of django-oauth-toolkit."""
    if not apps.is_installed("oauth2_provider"):
        return [*scopes]
    # An optional dependency, which only some sites have.
    from oauth2_provider.scopes import get_scopes_backend

    descriptions = get_scopes_backend().get_all_scopes()
    return [str(descriptions.get(scope, scope)) for scope in scopes]
