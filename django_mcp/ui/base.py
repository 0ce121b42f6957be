"""Views of MCP Apps: pages where hosts show the results of a tool.

The names are from the extension ``io.modelcontextprotocol/ui``, revision 2026-01-26. What a
view is rendered from is not known here: ``django_mcp.ui`` has views from templates.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django_mcp.core.components.base import Component, ConfigurationError, listed
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.errors import Json
from django_mcp.core.server.components import Expected
from django_mcp.ui.mcp_apps.metadata import EXTENSION, FLAT_URI, MIME_TYPE

FRAGMENT = "django-mcp/html"
"""The member of a result's ``_meta`` with the fragment that the page puts into itself."""
SCHEME = "ui://"

DOMAINS = {
    "connect": ("connectDomains", "connect_domains"),
    "resource": ("resourceDomains", "resource_domains"),
    "frame": ("frameDomains", "frame_domains"),
    "base_uri": ("baseUriDomains", None),
}
"""The keys of ``csp``, with their names in the extension and in the alias of ChatGPT."""
PERMISSIONS = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboard_write": "clipboardWrite",
}
"""Permissions of the browser for a view, and their names in the extension."""

_HOST = r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
ORIGIN = re.compile(rf"(?:https|wss)://(?:\*\.)?{_HOST}(?::[0-9]{{1,5}})?", re.ASCII)
LOCAL_ORIGIN = re.compile(r"(?:http|ws)://(?:localhost|127\.0\.0\.1)(?::[0-9]{1,5})?", re.ASCII)
"""Without TLS, only servers on the machine of a developer."""
DOMAIN = re.compile(rf"(?:https://)?{_HOST}", re.ASCII)


def renders_apps(frame: Frame) -> bool:
    """Return whether the client declares that it shows views; some do so without it."""
    extensions = frame.client.capabilities.get("extensions")
    settings = extensions.get(EXTENSION) if isinstance(extensions, Mapping) else None
    types = settings.get("mimeTypes") if isinstance(settings, Mapping) else None
    return isinstance(types, list) and MIME_TYPE in types


@dataclass(frozen=True, slots=True)
class Policy:
    """The origins and permissions that a host grants a view, and how it is framed."""

    csp: Mapping[str, tuple[str, ...]]
    permissions: tuple[str, ...] = ()
    domain: str | Mapping[str, str] | None = None
    """The origin that a host gives to the page; where hosts differ, by a part of their name."""
    prefers_border: bool | None = None

    @classmethod
    def of(
        cls,
        where: str,
        *,
        csp: Mapping[str, Iterable[str]] | None,
        permissions: Iterable[str],
        domain: str | Mapping[str, str] | None,
        prefers_border: bool | None,
    ) -> Policy:
        """Return the policy of these options; raises ConfigurationError for an invalid one."""
        names = listed(f"permissions of {where}", permissions)
        for permission in names:
            if permission not in PERMISSIONS:
                raise ConfigurationError(
                    f"{where} asks for the permission {permission!r}: there are "
                    f"{', '.join(PERMISSIONS)}"
                )
        return cls(
            _checked_csp(where, csp or {}), names, _checked_domain(where, domain), prefers_border
        )

    def to_meta(self, host: str = "") -> dict[str, Any]:
        """Return the ``_meta`` of the page for a host, with the aliases that ChatGPT reads."""
        csp = {DOMAINS[key][0]: list(origins) for key, origins in self.csp.items()}
        openai_csp = {
            alias: list(origins)
            for key, origins in self.csp.items()
            if (alias := DOMAINS[key][1]) is not None
        }
        permissions = {PERMISSIONS[name]: dict[str, Any]() for name in self.permissions}
        domain = self.domain_for(host)
        ui = {
            "csp": csp or None,
            "permissions": permissions or None,
            "domain": domain,
            "prefersBorder": self.prefers_border,
        }
        aliases = {
            "openai/widgetCSP": openai_csp or None,
            "openai/widgetDomain": domain,
            "openai/widgetPrefersBorder": self.prefers_border,
        }
        return _present({"ui": _present(ui) or None, **aliases})

    def domain_for(self, host: str) -> str | None:
        """Return the domain for a host, by the name that its client sends."""
        if not isinstance(self.domain, Mapping):
            return self.domain
        client = host.casefold()
        return next((it for name, it in self.domain.items() if name.casefold() in client), None)


class View(ABC):
    """A page, and what of a tool's result it is given besides the result itself."""

    uri: str
    """Where it is, without a version: ``ui://shop/cart``."""
    title: Any = None
    policy: Policy
    is_constant = True
    """Whether its page stays the same while the process runs."""
    has_fragment = False
    """Whether ``fragment_of`` is called for each result of its tools."""

    @property
    @abstractmethod
    def listed_uri(self) -> str:
        """The URI with the version of its contents: hosts cache by it."""

    @abstractmethod
    def page(self) -> str:
        """Return the HTML of the page, which never depends on the caller."""

    def fragment_of(self, value: Any, arguments: Json) -> str:
        """Return the HTML that shows ``value``, which a tool returned for ``arguments``."""
        raise TypeError(f"{self.uri} has no fragment")


def add_fragment(tool: Component | None, result: Json, render: Callable[[], str]) -> dict[str, Any]:
    """Return the result with a fragment, if the view of the tool shows one and it has none.

    It is in ``_meta``: hosts hand that to the view, and keep it from the model.
    """
    meta = result.get("_meta") or {}
    if not has_fragment(tool) or FRAGMENT in meta:
        return dict(result)
    return {**result, "_meta": {**meta, FRAGMENT: render()}}


def claude_domain(url: str) -> str:
    """Return the domain of views in Claude, for the exact URL that users enter as the connector.

    Claude shows no view with any other domain, and has one of its own for views without.
    """
    return f"{sha256(url.encode()).hexdigest()[:32]}.claudemcpcontent.com"


def has_fragment(component: Component | None) -> bool:
    """Whether a component has a view that shows fragments."""
    view = view_of(component)
    return view is not None and view.has_fragment


def view_of(component: Component | Expected | None) -> View | None:
    """Return the view of a tool; None if it has none."""
    return None if component is None else component.options.get("ui")


def tool_meta(view: View | None, *, app_only: bool) -> dict[str, Any]:
    """Return the members of a tool's ``_meta`` about its view, under all names that hosts read."""
    ui: dict[str, Any] = {"visibility": ["app"] if app_only else ["model", "app"]}
    meta: dict[str, Any] = {"ui": ui, "openai/widgetAccessible": True}
    if app_only:
        meta["openai/visibility"] = "private"
    if view is not None:
        uri = view.listed_uri
        meta["ui"] = {"resourceUri": uri, **ui}
        # Deprecated, but some hosts read nothing else.
        meta[FLAT_URI] = uri
        meta["openai/outputTemplate"] = uri
    return meta


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in members.items() if member is not None}


def _checked_csp(where: str, csp: Mapping[str, Iterable[str]]) -> Mapping[str, tuple[str, ...]]:
    checked = {}
    for key, origins in csp.items():
        if key not in DOMAINS:
            raise ConfigurationError(
                f"The csp of {where} has the key {key!r}: there are {', '.join(DOMAINS)}"
            )
        allowed = (origins,) if isinstance(origins, str) else tuple(origins)
        for origin in allowed:
            is_text = isinstance(origin, str)
            if not (is_text and (ORIGIN.fullmatch(origin) or LOCAL_ORIGIN.fullmatch(origin))):
                raise ConfigurationError(
                    f"The csp of {where} has the origin {origin!r}: write one as "
                    '"https://cdn.example.com" or "https://*.example.com", without a path'
                )
        checked[key] = allowed
    return checked


def _checked_domain(
    where: str, domain: str | Mapping[str, str] | None
) -> str | Mapping[str, str] | None:
    by_host: Mapping[Any, Any] = domain if isinstance(domain, Mapping) else {"": domain}
    for host, value in by_host.items():
        is_domain = isinstance(value, str) and DOMAIN.fullmatch(value) is not None
        if value is not None and not is_domain:
            raise ConfigurationError(
                f"The domain of {where} is {value!r}: write a host or an https origin, or a dict "
                'with one for each host, as {"chatgpt": "https://shop.example.com"}'
            )
        if not isinstance(host, str):
            raise ConfigurationError(f"The domain of {where} names the host {host!r}: write a name")
    return domain
