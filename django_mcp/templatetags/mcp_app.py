"""Tags for the pages of MCP Apps: ``{% load mcp_app %}``.

Static files are inside the page: hosts give a view no URL to load them from.
"""

from __future__ import annotations

import json
import mimetypes
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

from django import template
from django.contrib.staticfiles import finders
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_mcp.core.components.base import ConfigurationError

register = template.Library()

# Within strings and regular expressions, where they may occur, the escaped forms mean the same.
CLOSING = re.compile(r"</(?=script|style)|<!--", re.IGNORECASE)
ESCAPED = {"</": r"<\/", "<!--": r"<\!--"}
MAX_SAFE_INTEGER = 2**53
"""Up to here, the numbers of JavaScript have each integer."""


@register.simple_tag
def mcp_app() -> SafeString:
    """Return the bridge to the host, with the styles that follow the host's theme.

    Write it into the head of the page, before its own styles and scripts.
    """
    texts = {"failed": _("That did not work."), "cancelled": _("This was cancelled.")}
    return format_html(
        "{}\n{}\n{}",
        mcp_static("django_mcp/app.css"),
        json_script(texts, "mcp-app-texts"),
        mcp_static("django_mcp/app.js"),
    )


@register.simple_tag
def mcp_static(path: str) -> SafeString:
    """Return a static file as an element ``style`` or ``script``, or any other as a data URI.

    It is found by the finders of ``STATICFILES_FINDERS``. Raises ConfigurationError for a file
    that none of them finds.
    """
    location = finders.find(path)
    if location is None:
        raise ConfigurationError(
            f"The static file {path!r} was not found: write its path as for {{% static %}}, and "
            "keep the sources of static files where the site runs"
        )
    data = Path(str(location)).read_bytes()
    if path.endswith(".css"):
        return mark_safe(f"<style>{_escaped(data)}</style>")
    if path.endswith((".js", ".mjs")):
        kind = ' type="module"' if path.endswith(".mjs") else ""
        return mark_safe(f"<script{kind}>{_escaped(data)}</script>")
    mime_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return mark_safe(f"data:{mime_type};base64,{b64encode(data).decode()}")


def _escaped(data: bytes) -> str:
    """Return the text of a file, so that nothing in it ends its element."""
    return CLOSING.sub(lambda match: ESCAPED[match[0]], data.decode())


@register.simple_tag
def mcp_arguments(**arguments: Any) -> SafeString:
    """Return the attribute with the arguments of a call, for a button or a form.

    Values are JSON, so that none of them can add an argument or change another one. An integer that
    a browser would round is a text, as a number that is typed into a field.
    """
    text = json.dumps(_exact(arguments), cls=DjangoJSONEncoder)
    return format_html('data-mcp-arguments="{}"', text)


def _exact(value: Any) -> Any:
    """Return a value with its integers as the numbers of a browser have them, or as texts."""
    if isinstance(value, dict):
        return {name: _exact(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER else value
