"""The bound on the size of a result: MAX_RESULT_SIZE.

A result is held several times on its way to the client, and fills the context of a model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.core.protocol.errors import ExecutionError, ToolError
from django_mcp.core.protocol.preencoded import PreEncodedResult

if TYPE_CHECKING:
    from django_mcp.core.components.base import Component
    from django_mcp.core.frame.frame import Frame

logger = logging.getLogger("django_mcp")

MAX_BYTES_PER_CHARACTER = 4


def checked(frame: Frame, component: Component, result: dict[str, Any]) -> dict[str, Any]:
    """``result``; raises an error of the kind that the caller reads for a large one."""
    limit = frame.server.options.max_result_size
    size = size_of(result, limit)
    if size > limit:
        raise _too_large(component, size, limit)
    return result


def check_text(frame: Frame, component: Component, text: str) -> None:
    """Raise the same for a text that an extension adds to a result."""
    limit = frame.server.options.max_result_size
    size = _bytes_of(text, limit)
    if size > limit:
        raise _too_large(component, size, limit)


def size_of(result: Mapping[str, Any], limit: int) -> int:
    """The bytes of the texts and files in a result; structure is sent as text as well."""
    structure = result.get("structuredContent")
    if type(structure) is PreEncodedResult:
        return len(structure.text)
    blocks: Sequence[Any] = result.get("content") or result.get("contents") or ()
    messages = result.get("messages") or ()
    return sum(_sizes([*blocks, *(message["content"] for message in messages)], limit))


def _sizes(blocks: Iterable[Mapping[str, Any]], limit: int) -> Iterator[int]:
    for block in blocks:
        contents = block.get("resource") or block
        yield _bytes_of(contents.get("text", ""), limit)
        yield len(contents.get("data") or contents.get("blob") or "")


def _bytes_of(text: str, limit: int) -> int:
    """The bytes of ``text`` if they may matter, else its characters, which cost nothing."""
    may_matter = len(text) * MAX_BYTES_PER_CHARACTER > limit
    return len(text.encode(errors="surrogatepass")) if may_matter else len(text)


def _too_large(component: Component, size: int, limit: int) -> Exception:
    kind = component.kind.replace("_", " ")
    logger.warning(
        "The %s %s returned %d bytes, more than MAX_RESULT_SIZE (%d)",
        kind,
        component.name,
        size,
        limit,
    )
    message = (
        f"The result has {size:,} bytes, and {limit:,} are the most that this server returns. Ask "
        "for less: by a filter, fewer fields or a smaller page."
    )
    return ToolError(message) if component.kind == "tool" else ExecutionError(message)
