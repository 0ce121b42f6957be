"""Calls of commands to servers of the site: the server, the caller and the arguments of a call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.management.base import CommandError, CommandParser

from django_mcp import conf, registry
from django_mcp.core.auth import selection
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.base import Component
from django_mcp.core.frame.transport import StdioTransport
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.server.server import Server
from django_mcp.management.findings.base import split

LOCAL = "http://localhost:8000"
"""The address of ``runserver``, where BASE_URL does not name another."""


def get_server(name: str) -> Server:
    """Return the server of this name, configured; raises CommandError for an unknown one."""
    try:
        return registry.configure(registry.get(name))
    except LookupError as error:
        raise CommandError(str(error)) from error


def checked_url(url: str) -> str:
    """Return a URL that a user has named; raises CommandError unless it is a http or https URL."""
    parts = split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"{url!r} is no http or https URL")
    return url


def url_of(server: Server) -> str:
    """Return the URL of the endpoint."""
    return f"{conf.get().base_url or LOCAL}/{registry.path(server).strip('/')}"


# Callers.


def add_caller_arguments(parser: CommandParser) -> None:
    """Add the options which name the caller."""
    parser.add_argument("--user", help="username of whoever calls; without it, nobody does")
    parser.add_argument(
        "--scope", action="append", default=[], help="a scope of the caller; may be repeated"
    )


def add_selection_arguments(parser: CommandParser) -> None:
    """Add the options which select components, as the query of a URL does."""
    parser.add_argument("--groups", help="only the components of these groups: tickets,billing")
    parser.add_argument(
        "--read-only", action="store_true", help="only what is declared to change nothing"
    )
    parser.add_argument(
        "--all-tools", action="store_true", help="list all tools, where the server lists few"
    )


def selected(options: Mapping[str, Any]) -> Selection | None:
    """Return the selection of these options; raises CommandError."""
    try:
        groups = [] if options["groups"] is None else selection.read_groups(options["groups"])
        return selection.of_names(
            groups, read_only=options["read_only"], all_tools=options["all_tools"]
        )
    except ValueError as error:
        raise CommandError(str(error)) from error


def principal(scheme: str, username: str | None, scopes: Iterable[str]) -> Principal:
    """Return the caller; raises CommandError for an unknown or deactivated user."""
    model = get_user_model()
    user: Any = AnonymousUser()
    if username is not None:
        try:
            name = checked_text(username, "username")
            user = model._default_manager.get_by_natural_key(name)
        except model.DoesNotExist as error:
            raise CommandError(f"There is no user {username!r}") from error
        if not user.is_active:
            raise CommandError(f"The user {username!r} is deactivated")
    return Principal(scheme=scheme, user=user, scopes=frozenset(scopes))


# Calls.


def checked_text(text: str, what: str) -> str:
    """Return a text of the command line; raises CommandError for bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CommandError(f"The {what} is no UTF-8: {text!r}") from error
    return text


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a tool; raises CommandError."""
    try:
        arguments = json.loads(text)
        jsonrpc.encode(arguments)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"The arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise CommandError('The arguments are an object, such as \'{"text": "printer"}\'')
    return arguments


def transport() -> StdioTransport:
    """Return the transport of the requests of a command, which use no network."""
    return StdioTransport(env=dict(os.environ), os_pid=os.getpid())


def missing_rights(component: Component | None, principal: Principal) -> str:
    """A hint for a component that may be hidden from the caller; otherwise empty."""
    if component is None or not (component.permission or component.scopes):
        return ""
    if principal.is_anonymous:
        return " (It is not for everybody: see --user and --scope)"
    permission = registry.permission_of(component)
    needs = [f"the permission {permission}"] if permission else []
    needs += [f"the scope {scope}" for scope in sorted(component.scopes)]
    return f" (It needs {' and '.join(needs)}, which {principal.user} does not have)"
