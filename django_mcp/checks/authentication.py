"""Checks of authenticators: who may call, and who sees the tokens of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import iscoroutinefunction
from itertools import dropwhile

from django.conf import settings
from django.core.checks import Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_mcp import conf, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.challenges import BEARER
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.token import TokenAuthentication
from django_mcp.checks.base import Found, check
from django_mcp.core.auth.base import Authenticator
from django_mcp.core.components.base import Component
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.dispatch import visibility
from django_mcp.core.server.server import Server
from django_mcp.registry import registered_entries


@check()
def check_authenticators() -> Found:
    # A site that mounts no servers may use stdio alone.
    for server in registry.servers():
        try:
            registry.authenticators(server)
        except ImproperlyConfigured as error:
            if getattr(settings, "ASGI_APPLICATION", None) or _is_refused_under_wsgi():
                yield Error(str(error), id="django_mcp.E005")
        except Exception as error:
            yield Error(
                f"An authenticator of the MCP server {server.name!r} cannot be created: {error}",
                hint="Use the dotted path of a class, or pass an instance in authenticators=[…].",
                id="django_mcp.E006",
            )


def _is_refused_under_wsgi() -> bool:
    """Whether the WSGI application mounts the servers, which raises the error as well."""
    try:
        import_string(settings.WSGI_APPLICATION)
    except ImproperlyConfigured:
        return True
    except Exception:
        return False  # W021 reports it.
    return False


def public_writes() -> Found:
    """Yield a warning for each server with tools that may write, and that everybody may call."""
    for server in registry.servers():
        authenticators = _authenticators(server)
        is_public = any(isinstance(item, AnonymousAuthentication) for item in authenticators)
        if is_public and (names := list(_unguarded_writes(server))):
            yield Warning(
                f"Everyone may call tools of the MCP server {server.name!r} which are not declared "
                f"as read-only: {', '.join(names)}.",
                hint=(
                    "Set a permission or read_only=True on them, or remove "
                    "AnonymousAuthentication from the authenticators."
                ),
                id="django_mcp.W006",
            )


def _unguarded_writes(server: Server) -> Iterator[str]:
    """Return the names of tools which every caller sees and which may write, as is the default."""
    for component in server.components.registered():
        if not isinstance(component, ToolComponent):
            continue
        is_read_only = (component.annotations or {}).get("readOnlyHint", False)
        if not (is_read_only or _is_for_users(component) or component.scopes):
            yield component.name


@check()
def check_challenges() -> Found:
    for entry in registered_entries():
        component = entry.component
        authenticators = _authenticators(entry.server)
        is_guarded = component.scopes or component.permission
        if not is_guarded or visibility.policy_of(component, entry.server) != "challenged":
            continue
        if authenticators and (missing := _missing_login(component, authenticators)):
            yield Warning(
                f"Calls of the {entry.kind} {component.name!r} at {component.source} are answered "
                f"with a challenge, but {missing} at the MCP server {entry.server.name!r}.",
                hint=(
                    "Add an authenticator for access tokens to the server, or set "
                    'when_denied="hidden".'
                ),
                id="django_mcp.W012",
            )


@check()
def check_hidden_login() -> Found:
    """Find servers that never ask anybody to log in, although somebody could."""
    for server in registry.servers():
        authenticators = _authenticators(server)
        has_anonymous = any(getattr(item, "accepts_all", False) for item in authenticators)
        may_challenge = any(getattr(item, "scheme", None) == BEARER for item in authenticators)
        if not (has_anonymous and may_challenge):
            continue
        hidden = [
            component
            for component in server.components.registered()
            if _is_for_users(component) and visibility.policy_of(component, server) == "hidden"
        ]
        if hidden and not _asks_somebody(server):
            names = ", ".join(repr(component.name) for component in hidden[:SHOWN])
            more = f" and {len(hidden) - SHOWN} more" if len(hidden) > SHOWN else ""
            yield Warning(
                f"Nobody is ever asked to log in at the MCP server {server.name!r}: it accepts "
                f"anonymous callers, and hides from them {names}{more}, which are for users.",
                hint=(
                    'Set when_denied="challenged" on the server or on these components, so that '
                    "a client lets its user log in where they call one; or silence this check, "
                    "if users are to log in by themselves."
                ),
                id="django_mcp.W068",
            )


SHOWN = 3
"""Components that a warning names."""


def _is_for_users(component: Component) -> bool:
    """Whether its permission excludes anonymous callers.

    A view of REST framework may be listed for them, and ask for a login at the call.
    """
    permission = component.permission
    return bool(permission) and not getattr(permission, "admits_anonymous", False)


def _asks_somebody(server: Server) -> bool:
    """Whether a call of an anonymous caller is answered with a challenge anywhere."""
    return any(
        (component.scopes or component.permission)
        and visibility.policy_of(component, server) == "challenged"
        or getattr(component.permission, "admits_anonymous", False)
        for component in server.components.registered()
    )


@check()
def check_kinds_of_authenticators() -> Found:
    """Find classes of REST framework, which look like authenticators and are none."""
    for server in registry.servers():
        for item in _authenticators(server):
            if hasattr(item, "authenticate_header"):
                kind = type(item)
                yield Error(
                    f"{kind.__module__}.{kind.__qualname__}, an authenticator of the MCP server "
                    f"{server.name!r}, is an authentication class of Django REST framework: it "
                    "would fail at each request.",
                    hint=(
                        "Wrap it: RESTFrameworkAuthentication"
                        f'("{kind.__module__}.{kind.__qualname__}"), of '
                        "django_mcp.auth.rest_framework."
                    ),
                    id="django_mcp.E069",
                )
            elif not iscoroutinefunction(getattr(item, "authenticate", None)):
                yield Error(
                    f"The authenticator {item!r} of the MCP server {server.name!r} has no "
                    "asynchronous method authenticate.",
                    hint="Write: async def authenticate(self, scope). It returns a Principal, a "
                    "Challenge or None.",
                    id="django_mcp.E070",
                )


def _missing_login(component: Component, authenticators: Sequence[Authenticator]) -> str | None:
    """The rights that no authenticator gives to a caller; unknown ones may give everything."""
    if all(isinstance(item, AnonymousAuthentication) for item in authenticators):
        return "nobody can log in"
    without_scopes = (AnonymousAuthentication, DjangoSessionAuthentication)
    if component.scopes and all(isinstance(item, without_scopes) for item in authenticators):
        return "no authenticator gives scopes to a caller"
    return None


@check()
def check_sent_tokens() -> Found:
    for server in registry.servers():
        from_sender = [*dropwhile(_sends_no_tokens, _authenticators(server))]
        # Who accepts bearer tokens that an authenticator before it could take for its own. Personal
        # access tokens are known by their prefix, and are not sent.
        names = [
            type(item).__name__
            for item in from_sender
            if getattr(item, "scheme", None) == BEARER
            and _sends_no_tokens(item)
            and not isinstance(item, TokenAuthentication)
        ]
        if names:
            sender = type(from_sender[0]).__name__
            yield Warning(
                f"{sender} is listed before {', '.join(names)} at the MCP server {server.name!r}, "
                "so that it sends tokens which are for the latter to another service.",
                hint=f"List {sender} last.",
                id="django_mcp.W014",
            )


@check()
def check_order_of_authenticators() -> Found:
    for server in registry.servers():
        from_accepting = [*dropwhile(_demands_credentials, _authenticators(server))]
        # Tokens are read by whoever comes later; other credentials are not looked for any more.
        unread = [item for item in from_accepting[1:] if getattr(item, "scheme", None) != BEARER]
        if unread:
            accepting = type(from_accepting[0]).__name__
            names = ", ".join(type(item).__name__ for item in unread)
            yield Warning(
                f"{accepting} is listed before {names} at the MCP server {server.name!r} and "
                "accepts everybody, so that the latter never decides.",
                hint=f"List {accepting} last.",
                id="django_mcp.W040",
            )


def _demands_credentials(item: Authenticator) -> bool:
    return not getattr(item, "accepts_all", False)


def _sends_no_tokens(item: Authenticator) -> bool:
    return not getattr(item, "sends_tokens", False)


@check()
def check_audiences() -> Found:
    site = conf.get()
    if "*" not in settings.ALLOWED_HOSTS or site.base_url is not None or site.audiences:
        return
    for server in registry.mountable():
        if any(getattr(item, "needs_endpoint_url", False) for item in _authenticators(server)):
            yield Error(
                f"The MCP server {server.name!r} refuses every access token: it accepts those for "
                'its own URL, which no setting names while ALLOWED_HOSTS contains "*".',
                hint=(
                    'Set DJANGO_MCP["BASE_URL"] to the URL of the site, or list its host names in '
                    "ALLOWED_HOSTS."
                ),
                id="django_mcp.E025",
            )


@check(deploy=True)
def check_tokens_over_http() -> Found:
    site = conf.get()
    base_url = site.base_url or ""
    is_https = settings.SECURE_SSL_REDIRECT or settings.SECURE_PROXY_SSL_HEADER or base_url
    if is_https and not base_url.startswith("http://"):
        return
    for server in registry.mountable():
        if any(getattr(item, "scheme", None) for item in _authenticators(server)):
            yield Warning(
                f"The MCP server {server.name!r} accepts tokens, and no setting says that the "
                "site is served over https: tokens could be read on their way.",
                hint=(
                    'Set DJANGO_MCP["BASE_URL"] to the https URL of the site, or '
                    "SECURE_PROXY_SSL_HEADER behind a proxy."
                ),
                id="django_mcp.W011",
            )


def _authenticators(server: Server) -> Sequence[Authenticator]:
    try:
        return registry.authenticators(server)
    except Exception:  # The class of an authenticator may raise anything.
        return ()  # ``check_authenticators`` reports it.
