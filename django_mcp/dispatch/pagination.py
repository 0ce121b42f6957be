"""The pages of the list methods, and their cursors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.components.base import Component
from django_mcp.dispatch import visibility
from django_mcp.protocol import cursors

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame


async def page(frame: Frame, kind: str, member: str) -> tuple[dict[str, Any], Frame]:
    """Return one page of the visible components of ``kind``, as ``member``."""
    listed = visibility.components(frame, kind)
    start = _start(frame, kind, listed)
    limit = _limit(frame)
    shown: list[Component] = []
    for component in listed[start:] if start else listed:
        if not component.is_public and not await visibility.is_visible(frame, component):
            continue
        if len(shown) == limit:
            return _result(frame, kind, member, shown, more=True), frame
        shown.append(component)
    return _result(frame, kind, member, shown, more=False), frame


def _result(
    frame: Frame, kind: str, member: str, shown: Sequence[Component], *, more: bool
) -> dict[str, Any]:
    server, revision = frame.server, frame.revision
    result: dict[str, Any] = {
        member: [server.components.descriptor(revision, item) for item in shown]
    }
    if more:
        result["nextCursor"] = cursors.encode(kind, shown[-1].sort_key, server.sign)
    return result


def _start(frame: Frame, kind: str, listed: Sequence[Component]) -> int:
    params = frame.message.params
    if "cursor" not in params:
        return 0
    last = cursors.decode(kind, params["cursor"], frame.server.unsign)
    return bisect_right(listed, last, key=lambda component: component.sort_key)


def _limit(frame: Frame) -> int:
    limit = frame.private.get("pagination_limit") or frame.server.page_size
    return frame.server.options.page_size if limit is None else limit
