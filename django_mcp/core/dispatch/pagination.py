"""The pages of the list methods."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mcp.core.dispatch import list_answers, visibility
from django_mcp.core.dispatch.list_answers import Answers
from django_mcp.core.protocol import cursors
from django_mcp.core.protocol.preencoded import PreEncodedList
from django_mcp.core.server.component_lists import sort_key

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame


async def page(
    frame: Frame, kind: str, member: str
) -> tuple[dict[str, Any] | PreEncodedList, Frame]:
    """Return one page of the visible components of ``kind``, as ``member``."""
    server = frame.server
    selection = frame.principal.selection
    last = position(frame, kind)
    answers: Answers = {}
    if last is not None:
        *last_key, name = last
        answers = list_answers.take(frame, name)
    if selection is not None:
        await visibility.check_groups(frame, answers)
    # A few chosen tools, which find the others, unless the connection selects all.
    lists_few = kind in server.short_lists and not (selection and selection.all_tools)
    offered = visibility.in_order(frame, kind, loaded_only=lists_few)
    listed = offered.listed
    start = 0
    if last is not None:
        start = bisect_right(listed, tuple(last_key), key=sort_key)
    # One more than the page has tells that there is a next one.
    most = limit_of(frame) + 1
    if offered.is_public:
        shown = listed[start : start + most]
    else:
        shown = await visibility.listed(frame, listed[start:], most, answers)
    next_page: dict[str, Any] = {}
    if len(shown) == most:
        shown = shown[:-1]
        name = list_answers.keep(frame, answers) if answers else ""
        next_page["nextCursor"] = cursor_after(frame, kind, [*sort_key(shown[-1]), name])
    others = next_page
    if server.cache is not None and (selection is not None or not offered.is_public):
        others = {**next_page, **visibility.private_scope(frame)}
    revision = frame.revision
    if not frame.exchange.encodes or server.middleware:
        described = [server.components.descriptor(revision, each) for each in shown]
        return {member: described, **others}, frame
    # Nothing reads it before it is sent.
    encoded = PreEncodedList(member, server.components.encoded_list(revision, shown))
    return {member: encoded, **others} if others else encoded, frame


def position(frame: Frame, kind: str) -> tuple[str, ...] | None:
    """Return the key of the last entry before the requested page; None for the first page.

    Raises InvalidParams for a cursor that was not issued for this list and this caller.
    """
    if "cursor" not in frame.message.params:
        return None
    unsign = partial(frame.server.unsign, "cursor", frame.principal.key)
    return cursors.decode(kind, frame.message.params["cursor"], unsign)


def cursor_after(frame: Frame, kind: str, key: Sequence[str]) -> str:
    """Return the cursor of the page after the entry with this key."""
    return cursors.encode(kind, key, partial(frame.server.sign, "cursor", frame.principal.key))


def limit_of(frame: Frame) -> int:
    """Return the number of entries of a page."""
    return frame.private.get("pagination_limit") or frame.server.page_size
