"""The pages of the list methods."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.components.base import Component
from django_mcp.dispatch import visibility
from django_mcp.protocol import cursors

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


async def page(frame: Frame, kind: str, member: str) -> tuple[dict[str, Any], Frame]:
    """Return one page of the visible components of ``kind``, as ``member``."""
    listed, start = visibility.components(frame, kind), 0
    server = frame.server
    if "cursor" in frame.message.params:
        unsign = partial(server.unsign, "cursor", frame.principal.key)
        last = cursors.decode(kind, frame.message.params["cursor"], unsign)
        start = bisect_right(listed, last, key=lambda component: component.sort_key)
    limit = frame.private.get("pagination_limit") or server.page_size or server.options.page_size
    shown: list[Component] = []
    next_page: dict[str, Any] = {}
    for component in listed[start:] if start else listed:
        if not component.is_public and not await visibility.is_listed(frame, component):
            continue
        if len(shown) == limit:
            sign = partial(server.sign, "cursor", frame.principal.key)
            next_page["nextCursor"] = cursors.encode(kind, shown[-1].sort_key, sign)
            break
        shown.append(component)
    revision, declared = frame.revision, server.components
    # Middleware and callers in the process may change what they receive.
    is_only_encoded = frame.exchange.encodes and not server.middleware
    describe = declared.shared_descriptor if is_only_encoded else declared.descriptor
    return {member: [describe(revision, item) for item in shown], **next_page}, frame
