"""Read the metadata of MCP Apps in lists and results of a server."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from django_mcp.core.protocol.errors import Json

EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
CAPABILITY: Json = {"extensions": {EXTENSION: {"mimeTypes": [MIME_TYPE]}}}
"""The capabilities of a client that shows views."""

MEMBER = "ui"
"""The member of ``_meta`` that describes the view of a tool, or the policy of a page."""
EVERYBODY = ("model", "app")
FLAT_URI = "ui/resourceUri"
"""The member that older hosts read."""


def resource_uri(tool: Json) -> str | None:
    """Return the URI of the view of a listed tool; None if it has none."""
    uri = ui_meta(tool).get("resourceUri") or _meta(tool).get(FLAT_URI)
    return uri if isinstance(uri, str) else None


def visibility(tool: Json) -> Sequence[str]:
    """Return who may call a listed tool: "model", "app" or both."""
    value = ui_meta(tool).get("visibility")
    return value if isinstance(value, list) else EVERYBODY


def ui_meta(owner: Json) -> dict[str, Any]:
    """Return ``_meta.ui`` of a tool, a resource or its content; empty without one."""
    value = _meta(owner).get(MEMBER)
    return value if isinstance(value, dict) else {}


def html_of(content: Json) -> str:
    """Return the document of a view: its text, or its blob, which is encoded as base64."""
    if "text" in content:
        return str(content["text"])
    return base64.b64decode(content["blob"]).decode()


def _meta(owner: Json) -> Json:
    value = owner.get("_meta")
    return value if isinstance(value, dict) else {}
