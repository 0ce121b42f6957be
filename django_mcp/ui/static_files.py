"""Static files inside a page: hosts give a view no URL to load them from."""

from __future__ import annotations

import mimetypes
import re
from base64 import b64encode
from pathlib import Path

from django.contrib.staticfiles import finders
from django.utils.safestring import SafeString, mark_safe

from django_mcp.core.components.base import ConfigurationError

# Within strings and regular expressions, where they may occur, the escaped forms mean the same.
CLOSING = re.compile(r"</(?=script|style)|<!--", re.IGNORECASE)
ESCAPED = {"</": r"<\/", "<!--": r"<\!--"}


def inlined(path: str) -> SafeString:
    """Return a static file as an element ``style`` or ``script``, or any other as a data URI.

    It is found by the finders of ``STATICFILES_FINDERS``. Raises ConfigurationError for a file
    that none of them finds.
    """
    data = _contents(path)
    if path.endswith(".css"):
        return mark_safe(f"<style>{_escaped(data)}</style>")
    if path.endswith((".js", ".mjs")):
        kind = ' type="module"' if path.endswith(".mjs") else ""
        return mark_safe(f"<script{kind}>{_escaped(data)}</script>")
    mime_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return mark_safe(f"data:{mime_type};base64,{b64encode(data).decode()}")


def _contents(path: str) -> bytes:
    location = finders.find(path)
    if location is None:
        raise ConfigurationError(
            f"The static file {path!r} was not found: write its path as for {{% static %}}, and "
            "keep the sources of static files where the site runs"
        )
    return Path(str(location)).read_bytes()


def _escaped(data: bytes) -> str:
    """Return the text of a file, so that nothing in it ends its element."""
    return CLOSING.sub(lambda match: ESCAPED[match[0]], data.decode())
