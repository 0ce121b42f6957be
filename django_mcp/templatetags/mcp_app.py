"""Tags for the pages of MCP Apps: ``{% load mcp_app %}``."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_mcp.ui import static_files

register = template.Library()


@register.simple_tag
def mcp_app() -> SafeString:
    """Return the bridge to the host, with the styles that follow the host's theme.

    Write it into the head of the page, before its own styles and scripts.
    """
    texts = {"failed": _("That did not work."), "cancelled": _("This was cancelled.")}
    return format_html(
        "{}\n{}\n{}",
        static_files.inlined("django_mcp/app.css"),
        json_script(texts, "mcp-app-texts"),
        static_files.inlined("django_mcp/app.js"),
    )


@register.simple_tag
def mcp_static(path: str) -> SafeString:
    """Return a static file as an element ``style`` or ``script``, or any other as a data URI."""
    return static_files.inlined(path)


@register.simple_tag
def mcp_arguments(**arguments: Any) -> SafeString:
    """Return the attribute with the arguments of a call, for a button or a form.

    Values are JSON, so that none of them can add an argument or change another one.
    """
    return format_html('data-mcp-arguments="{}"', json.dumps(arguments, cls=DjangoJSONEncoder))
