"""Views from Django templates: a page that is the same for everybody, and a fragment of results.

The page is rendered once for each language of the site, without a request and without data of a
call. The script of the page shows the result of a tool, or a *fragment* does: a template that is
rendered with the result, in the call, with autoescape.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

from django.conf import global_settings, settings
from django.core.signals import setting_changed
from django.template.loader import render_to_string
from django.utils import translation
from pydantic import BaseModel

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.responses import MISSING, ToolResponse
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.uri_templates import is_uri
from django_mcp.ui.base import SCHEME, Policy, View

logger = logging.getLogger("django_mcp")

PAGE = "django_mcp/app.html"
"""The page of a view that has a fragment only."""
VERSION_DIGITS = 12
FOLDERS = frozenset({"mcp", "templates"})
"""Folders of templates that say nothing in a URI."""


class TemplateView(View):
    """A view from templates; ``template_view`` makes one."""

    def __init__(
        self,
        template: str,
        *,
        uri: str,
        fragment: str | None,
        title: Any,
        policy: Policy,
    ) -> None:
        self.template = template
        self.uri = uri
        self.fragment = fragment
        self.title = title
        self.policy = policy
        self.has_fragment = fragment is not None
        self._pages: dict[str, str] = {}
        self._listed_uri: str | None = None
        setting_changed.connect(self._forget)

    def __repr__(self) -> str:
        return f"<view {self.uri}>"

    @property
    def is_constant(self) -> bool:  # type: ignore[override]
        """Whether nobody edits its templates while the process runs."""
        return not settings.DEBUG

    @property
    def listed_uri(self) -> str:
        """The URI with the hash of the page in the languages of the site.

        A page that cannot be rendered has the URI without one: reading it tells why.
        """
        uri = self._listed_uri
        if uri is None or not self.is_constant:
            uri = self._with_version()
            self._listed_uri = uri
        return uri

    def _with_version(self) -> str:
        digest = sha256()
        try:
            for language in site_languages():
                with translation.override(language):
                    digest.update(f"{language}\n{self.page()}\n".encode())
        except Exception:
            logger.exception("The view %s cannot be rendered", self.uri)
            return self.uri
        return f"{self.uri}/{digest.hexdigest()[:VERSION_DIGITS]}"

    def page(self) -> str:
        """Return the HTML of the page in the current language; raises the errors of rendering."""
        language = translation.get_language() or ""
        page = self._pages.get(language)
        if page is None or not self.is_constant:
            page = render_to_string(self.template, self.context())
            # Callers choose the language: the cache must not grow with their choices.
            if language in site_languages():
                self._pages[language] = page
        return page

    def context(self) -> dict[str, Any]:
        """Return the context of the page, which must not depend on the caller."""
        return {"view": self}

    def fragment_of(self, value: Any, arguments: Json) -> str:
        """Return the fragment for a result; raises the errors of rendering."""
        if self.fragment is None:
            return View.fragment_of(self, value, arguments)
        context = {"view": self, **fragment_context(value, arguments)}
        return render_to_string(self.fragment, context)

    def _forget(self, *, setting: str, **others: Any) -> None:
        if setting in {"TEMPLATES", "LANGUAGE_CODE", "LANGUAGES", "STATICFILES_DIRS"}:
            self._pages = {}
            self._listed_uri = None


def template_view(
    template: str | None = None,
    *,
    fragment: str | None = None,
    uri: str | None = None,
    title: Any = None,
    csp: Mapping[str, Iterable[str]] | None = None,
    permissions: Iterable[str] = (),
    domain: str | Mapping[str, str] | None = None,
    prefers_border: bool | None = None,
) -> TemplateView:
    """Return a view from a template, for ``@tool(ui=…)``.

    ``template`` is the page, with ``{% mcp_app %}`` in its head; by default it has nothing but the
    ``fragment``, a template of a result, with its members, the whole as ``result``, and
    ``arguments``. ``csp`` names the origins that it needs, by "connect", "resource", "frame" and
    "base_uri"; ``permissions`` are "camera", "microphone", "geolocation" and "clipboard_write".
    ``domain`` is the origin that a host gives to the page; ``prefers_border`` is whether it draws a
    border. Raises ConfigurationError.
    """
    name = template or fragment
    if name is None:
        raise ConfigurationError("A view needs a template: give a template, or a fragment")
    where = f"the view of {name!r}"
    policy = Policy.of(
        where,
        csp=csp,
        permissions=permissions,
        domain=domain,
        prefers_border=prefers_border,
    )
    uri = uri or uri_of(name)
    is_plain = uri.startswith(SCHEME) and is_uri(uri) and not uri.endswith("/")
    if not is_plain or any(character in uri for character in "{}?#"):
        raise ConfigurationError(
            f'The uri of {where} is {uri!r}: write one such as "ui://shop/cart"'
        )
    return TemplateView(
        template or PAGE,
        uri=uri,
        fragment=fragment,
        title=title,
        policy=policy,
    )


def site_languages() -> list[str]:
    """Return the languages that the site declares, its own one first.

    Where LANGUAGES is not set, Django knows about a hundred, and a site has few of them.
    """
    is_default = settings.LANGUAGES is global_settings.LANGUAGES
    declared = () if is_default else settings.LANGUAGES
    return [*dict.fromkeys([settings.LANGUAGE_CODE, *(code for code, name in declared)])]


def uri_of(template: str) -> str:
    """Return the URI of a view by the name of its template."""
    *folders, name = template.split("/")
    parts = [folder for folder in folders if folder not in FOLDERS]
    parts.append(name.partition(".")[0].strip("_") or name)
    return SCHEME + "/".join(re.sub(r"[^A-Za-z0-9_~-]", "-", part) for part in parts)


def fragment_context(value: Any, arguments: Json) -> dict[str, Any]:
    """Return the context of a fragment for the return value of a tool."""
    if isinstance(value, ToolResponse):
        value = None if value.structure is MISSING else value.structure
    members: dict[str, Any] = {}
    if isinstance(value, Mapping):
        members = {name: member for name, member in value.items() if isinstance(name, str)}
    elif isinstance(value, BaseModel):
        members = {name: getattr(value, name) for name in type(value).model_fields}
    elif is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
    return {**members, "result": value, "arguments": arguments}
