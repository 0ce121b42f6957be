"""The page of a server."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_mcp import conf, registry
from django_mcp.admin.component_page import Fact
from django_mcp.core.components.base import Component
from django_mcp.core.protocol.revisions import Statefulness
from django_mcp.core.server.components import KINDS
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.registry import Entry


class Count(NamedTuple):
    """The components of one kind."""

    kind: str
    number: int
    switched_off: int
    tokens: int


class Group(NamedTuple):
    """A group that connections may select."""

    name: str
    number: int
    scopes: str


def authenticators(server: Server) -> list[str]:
    """Return the names of the authenticators' classes."""
    try:
        return [type(authenticator).__name__ for authenticator in registry.authenticators(server)]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def versions(server: Server) -> list[str]:
    """Return the revisions that the server speaks, newest first."""
    registry.make_ready(server)
    served = [revision for kind in Statefulness for revision in server.revisions(kind)]
    return sorted((revision.version for revision in served), reverse=True)


def facts(server: Server, url: str | None) -> list[Fact]:
    """Return how clients reach a server, and the scopes for all of it."""
    registry.make_ready(server)
    info = server.info
    policy = server.when_denied or _("hidden, or challenged where a component has scopes")
    return [
        Fact(_("Name"), server.name, True),
        Fact(_("Title"), info.get("title") or "-"),
        Fact(_("Version"), info.get("version") or "-"),
        Fact(_("Path"), registry.path(server), True),
        *([] if url is None else [Fact(_("URL"), url, True)]),
        Fact(_("Revisions"), ", ".join(versions(server))),
        Fact(_("Authenticators"), ", ".join(authenticators(server))),
        Fact(_("Scopes"), ", ".join(sorted(server.scopes)) or _("none")),
        Fact(_("Who may not use"), policy),
        *(
            Fact(label, value)
            for extension in INSTALLED.all
            if extension.facts is not None
            for label, value in extension.facts(server)
        ),
    ]


def counts(server: Server) -> list[Count]:
    """Return the number of components of each kind, and of the tokens that models read of them."""
    by_kind: dict[str, list[Entry]] = {kind: [] for kind in KINDS}
    for entry in registry.entries(server):
        by_kind.setdefault(entry.component.kind, []).append(entry)
    shown = []
    for listed in filter(None, by_kind.values()):
        off = sum(entry.is_switched_off for entry in listed)
        tokens = sum(entry.tokens for entry in listed if not entry.is_switched_off)
        shown.append(Count(listed[0].kind, len(listed), off, tokens))
    return shown


def groups(server: Server) -> list[Group]:
    """Return the groups of a server, in the order of their names."""
    by_group: dict[str, list[Component]] = {}
    for component in server.components.all():
        if component.group is not None:
            by_group.setdefault(component.group, []).append(component)
    scopes = server.group_scopes or {}
    return [
        Group(name, len(members), ", ".join(sorted(scopes.get(name, ()))))
        for name, members in sorted(by_group.items())
    ]


def instructions(server: Server) -> str:
    """Return the text that clients give their model; "" for none."""
    text = server.instructions
    return str((text() if callable(text) else text) or "")


def url_of(server: Server, request: HttpRequest) -> str | None:
    """Return the URL for an examination of the server; None if only a client would name its host.

    Without BASE_URL it has the host of the request, if ALLOWED_HOSTS names it, and the port that
    received the request: else a user of the admin could have the site send requests to any host.
    """
    path = f"/{registry.path(server).strip('/')}"
    base = conf.get().base_url
    if base:
        return f"{base}{path}"
    is_any_host_allowed = "*" in settings.ALLOWED_HOSTS
    if is_any_host_allowed:
        return None
    host = urlsplit(f"//{request.get_host()}")
    is_named = host.port is not None and str(host.port) != request.get_port()
    netloc = f"{host.netloc.removesuffix(f':{host.port}')}:{request.get_port()}"
    url = urlsplit(request.build_absolute_uri(path))
    return (url._replace(netloc=netloc) if is_named else url).geturl()
