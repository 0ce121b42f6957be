"""Responses on the page: their content as a client would show it, or the error.

Everything here is text for a template, which escapes it. Images and sounds are ``data:`` URLs of
known media types, and links lead to ``http:``, ``https:`` and ``mailto:`` only.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from django_mcp.admin.try_it.calls import Message
from django_mcp.core.protocol.errors import Json

SHOWN_MEDIA: Mapping[str, str] = {
    **dict.fromkeys(
        ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"), "image"
    ),
    **dict.fromkeys(("audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/webm"), "audio"),
    **dict.fromkeys(("audio/flac", "audio/mp4"), "audio"),
}
"""Media types that the page shows: none has scripts."""
LINKS = frozenset({"http", "https", "mailto"})
MAX_STRING = 2000
"""Characters of a string in a message that is shown, which may be an image."""

Tone = Literal["success", "error", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a result. ``kind`` is "text", "image", "audio", "link", "file" or "json"."""

    kind: str
    text: str = ""
    title: str = ""
    url: str = ""
    """For an image or a sound its ``data:`` URL, for a link its target, or "" if it is unsafe."""
    note: str = ""
    """The media type, the URI and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A response; ``messages`` belong to a prompt, with their roles."""

    tone: Tone
    title: str
    text: str = ""
    blocks: Sequence[Block] = ()
    messages: Sequence[tuple[str, Sequence[Block]]] = ()
    link: str = ""
    details: str = ""
    """JSON of values without a form of their own."""


def shown(response: Json) -> Shown:
    """Return the parts of a response for the page."""
    error = response.get("error")
    if error is not None:
        return _error(error)
    result = response.get("result") or {}
    if result.get("resultType") == "input_required":
        return Shown(tone="waiting", title=_("Input required"))
    if "taskId" in result:
        return _task(result)
    return _result(result)


def _error(error: Json) -> Shown:
    data = error.get("data")
    return Shown(
        tone="error",
        title=_("Error %(code)s") % {"code": error.get("code")},
        text=str(error.get("message", "")),
        details="" if data is None else as_json(data),
    )


def _task(task: Json) -> Shown:
    status = task["status"]
    if status == "completed" and isinstance(task.get("result"), Mapping):
        return _result(task["result"])
    if status == "failed" and isinstance(task.get("error"), Mapping):
        return _error(task["error"])
    titles = {
        "working": _("Task: working"),
        "input_required": _("Task: input required"),
        "cancelled": _("Task: cancelled"),
    }
    text = str(task.get("statusMessage", ""))
    return Shown(
        tone="error" if status == "cancelled" else "waiting",
        title=titles.get(status, str(status)),
        text=text,
        link=first_link(text),
    )


def _result(result: Json) -> Shown:
    if "messages" in result:
        messages = [
            (str(message.get("role", "")), [block_of(message.get("content") or {})])
            for message in result["messages"]
        ]
        text = str(result.get("description", ""))
        return Shown(tone="success", title=_("Prompt"), text=text, messages=messages)
    if "contents" in result:
        blocks = [_resource(contents) for contents in result["contents"]]
        return Shown(tone="success", title=_("Contents"), blocks=blocks)
    is_error = bool(result.get("isError"))
    blocks = [block_of(block) for block in result.get("content") or ()]
    if "structuredContent" in result:
        structured = result["structuredContent"]
        blocks = [block for block in blocks if not _repeats(block, structured)]
        title = _("Structured content")
        blocks.append(Block(kind="json", title=title, text=as_json(structured)))
    return Shown(
        tone="error" if is_error else "success",
        title=_("The tool reports an error") if is_error else _("Success"),
        blocks=blocks,
        text="" if blocks else _("The result is empty."),
    )


def unfinished(response: Json) -> Shown:
    """Return the parts of a call that runs on, or waits for a person."""
    texts = [block.text for block in _result(response["result"]).blocks]
    link = next(filter(None, map(first_link, texts)), "")
    blocks = [Block(kind="text", text=text) for text in texts]
    return Shown(tone="waiting", title=_("Waiting"), blocks=blocks, link=link)


def _repeats(block: Block, structured: Any) -> bool:
    """Whether a text is the JSON of the structured content, which is shown once."""
    if block.kind != "text":
        return False
    try:
        return bool(json.loads(block.text) == structured)
    except (ValueError, RecursionError):
        return False


def block_of(block: Json) -> Block:
    """Return the parts of a block of content."""
    show = BLOCKS.get(str(block.get("type")), _unknown)
    return show(block)


def _text(block: Json) -> Block:
    return Block(kind="text", text=str(block.get("text", "")))


def _media(block: Json) -> Block:
    return _data(str(block.get("data", "")), str(block.get("mimeType", "")))


def _resource(contents: Json) -> Block:
    uri = str(contents.get("uri", ""))
    media_type = str(contents.get("mimeType", ""))
    if "blob" in contents:
        return _data(str(contents["blob"]), media_type, uri)
    note = " · ".join(filter(None, (uri, media_type)))
    text = str(contents.get("text", ""))
    if media_type == "application/json":
        with suppress(ValueError, RecursionError):
            text = as_json(json.loads(text))
    return Block(kind="text", text=text, note=note)


def _embedded(block: Json) -> Block:
    return _resource(block.get("resource") or {})


def _link(block: Json) -> Block:
    uri = str(block.get("uri", ""))
    title = str(block.get("title") or block.get("name") or uri)
    note = " · ".join(filter(None, (uri, str(block.get("mimeType", "")))))
    return Block(
        kind="link",
        title=title,
        url=safe_url(uri),
        note=note,
        text=str(block.get("description", "")),
    )


def _unknown(block: Json) -> Block:
    return Block(kind="json", title=str(block.get("type", "")), text=as_json(block))


BLOCKS: Mapping[str, Callable[[Json], Block]] = {
    "text": _text,
    "image": _media,
    "audio": _media,
    "resource": _embedded,
    "resource_link": _link,
}
"""How each type of content is shown."""


def _data(encoded: str, media_type: str, uri: str = "") -> Block:
    """Return an image, a sound, or the size of anything else."""
    try:
        content = b64decode(encoded, validate=True)
    except ValueError:
        note = _("This is no valid base64.")
        return Block(kind="file", note=" · ".join(filter(None, (uri, media_type, note))))
    size = _("%(number)d bytes") % {"number": len(content)}
    note = " · ".join(filter(None, (uri, media_type, size)))
    kind = SHOWN_MEDIA.get(media_type)
    if kind is None:
        return Block(kind="file", note=note)
    url = f"data:{media_type};base64,{b64encode(content).decode()}"
    return Block(kind=kind, url=url, note=note, title=uri)


def safe_url(url: str) -> str:
    """Return the URL if a link may lead there, else ""."""
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        return ""
    return url if scheme in LINKS else ""


def first_link(text: str) -> str:
    """Return the first web address in a text, such as the page on which a person answers."""
    for word in text.split():
        if word.startswith(("http://", "https://")):
            return safe_url(word.rstrip(".,;)"))
    return ""


# Messages.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message as it is on the wire, with a line that describes it."""

    direction: str
    summary: str
    text: str


def shown_message(message: Message) -> ShownMessage:
    return ShownMessage(
        direction=message.direction,
        summary=summary_of(message.body),
        text=as_json(_shortened(message.body)),
    )


def as_event(message: Message) -> dict[str, str]:
    """Return a message for the script of the page."""
    label = _("sent") if message.direction == "sent" else _("received")
    return {"label": label, **asdict(shown_message(message))}


def summary_of(body: Json) -> str:
    """Return the method of a request or a notification, or the kind of a response."""
    if "method" in body:
        params = body.get("params") or {}
        subject = params.get("name") or params.get("uri") or params.get("message") or ""
        line = " ".join(str(subject).split())
        shown = line if len(line) <= 80 else f"{line[:79]}…"
        return f"{body['method']} {shown}".strip()
    if "error" in body:
        return _("error %(code)s") % {"code": body["error"].get("code")}
    return str((body.get("result") or {}).get("resultType") or _("result"))


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _shortened(value: Any) -> Any:
    """Return a value with its long strings cut, such as images."""
    if isinstance(value, str) and len(value) > MAX_STRING:
        rest = _("… and %(number)d more characters") % {"number": len(value) - MAX_STRING}
        return value[:MAX_STRING] + rest
    if isinstance(value, Mapping):
        return {name: _shortened(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return value
