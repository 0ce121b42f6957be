"""The view of a tool, as a host of MCP Apps receives it, and its blocked parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django_mcp.core.protocol.errors import Json
from django_mcp.testing.results import CallResult
from django_mcp.ui.base import FRAGMENT
from django_mcp.ui.mcp_apps import blocked, metadata, policy
from django_mcp.ui.mcp_apps.blocked import Blocked


@dataclass(frozen=True, kw_only=True)
class RenderedApp:
    """The view that a host shows for one call."""

    uri: str
    html: str
    """The document of the view, which is the same for all calls."""
    meta: Mapping[str, Any]
    """``_meta.ui`` of the view: ``csp``, ``permissions``, ``domain`` and ``prefersBorder``."""
    tool: Mapping[str, Any]
    """The tool, as it is listed."""
    result: CallResult
    """The result of the call, which the host sends to the view."""

    @property
    def fragment(self) -> str | None:
        """The HTML that the view shows for this result; None without a fragment."""
        html = self.result.get("_meta", {}).get(FRAGMENT)
        return html if isinstance(html, str) else None

    @property
    def policy(self) -> str:
        """The Content-Security-Policy that hosts derive from the metadata."""
        return policy.header(self.meta.get("csp"))

    @property
    def blocked(self) -> Sequence[Blocked]:
        """The blocked parts: ``directive``, ``source`` and ``line`` of each.

        The parts of the HTML come first, then the fragment's. URLs that a script puts
        together are not found.
        """
        csp = self.meta.get("csp")
        return [*blocked.find(self.html, csp), *blocked.find(self.fragment or "", csp)]

    def assert_nothing_blocked(self) -> Self:
        """Fail if the policy blocks a part of the view."""
        if self.blocked:
            lines = "\n".join(str(part) for part in self.blocked)
            raise AssertionError(f"The policy of {self.uri} blocks parts of it:\n{lines}")
        return self


def of_call(tool: Json, listed: Json, resource: Json, result: CallResult) -> RenderedApp:
    """Return the view of a tool: its resource as it is listed, and as it is read.

    Raises AssertionError if hosts do not show it.
    """
    (content, *_) = resource["contents"]
    if content.get("mimeType") != metadata.MIME_TYPE:
        raise AssertionError(
            f"The view of {tool['name']!r} has the MIME type {content.get('mimeType')!r}: "
            f"hosts show {metadata.MIME_TYPE!r} only"
        )
    return RenderedApp(
        uri=content["uri"],
        html=metadata.html_of(content),
        meta=metadata.ui_meta(content) or metadata.ui_meta(listed),
        tool=tool,
        result=result,
    )
