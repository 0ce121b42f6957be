"""Response builders that a handler returns where a plain value cannot express the result.

Each kind of component has its own builder: ``Response.tool()`` and so on. Builders are immutable:
every method returns a new one. Invalid values raise ValueError or UnserializableResult at once.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Self
from urllib.parse import quote

from django_mcp.core.components import serializers
from django_mcp.core.components.base import CacheHint, UnserializableResult
from django_mcp.core.ports import Port
from django_mcp.core.protocol.content import (
    AnyAnnotations,
    AudioContent,
    Content,
    EmbeddedResource,
    Icon,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
    block,
)
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.meta import check_keys

MAX_COMPLETIONS = 100
"""The maximum of values in one result (specification, completion, "Response Data")."""
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript")
TEMPLATE_RENDERER: Port[Callable[[str, Mapping[str, Any]], str]] = Port("renders templates")
"""Renders a template by its name."""
MAX_FILE_SIZE: Port[Callable[[], int]] = Port("says how large files may be")
"""Returns the bytes that a file may have."""
MISSING = object()
"""No structured content, which is not the same as null."""


@dataclass(frozen=True, slots=True)
class Response:
    """A result being built: start with ``Response.tool()`` or its equivalent for another kind."""

    result_meta: Json | None = field(default=None, kw_only=True)

    @staticmethod
    def tool() -> ToolResponse:
        """Start the result of a tool."""
        return ToolResponse()

    @staticmethod
    def prompt(description: str | None = None) -> PromptResponse:
        """Start the result of a prompt."""
        return PromptResponse(description=description)

    @staticmethod
    def resource() -> ResourceResponse:
        """Start the result of reading a resource."""
        return ResourceResponse()

    @staticmethod
    def completion(values: Iterable[str] = ()) -> CompletionResponse:
        """Start the result of a completion."""
        return CompletionResponse(values=tuple(map(str, values)))

    @staticmethod
    def file(
        file: Any,
        *,
        mime_type: str | None = None,
        name: str | None = None,
        uri: str | None = None,
    ) -> ContentResponse:
        """Return the contents of a file, as the result of a tool, a resource or a prompt.

        ``file`` is the value of a FileField, an open file, an image of Pillow, a path or bytes. It
        is read at once: call this where code may block. The MIME type is derived from the name.
        ``uri`` is its address for a client. Raises UnserializableResult above MAX_RESULT_SIZE, and
        for an empty FileField.
        """
        return _read_file(file, mime_type, name, uri)

    @staticmethod
    def template(
        template_name: str,
        context: Mapping[str, Any] | None = None,
        *,
        mime_type: str | None = None,
    ) -> ContentResponse:
        """Return the text of a Django template, as the result of a tool, a resource or a prompt.

        The MIME type is derived from the name.
        """
        text = TEMPLATE_RENDERER.get()(template_name, context or {})
        kind = mime_type or mimetypes.guess_type(template_name)[0] or "text/plain"
        return ContentResponse(data=str(text), mime_type=kind, name=template_name)

    def meta(self, meta: Json) -> Self:
        """Add to the ``_meta`` of the result; raises ValueError for a reserved key."""
        check_keys(meta)
        return replace(self, result_meta={**(self.result_meta or {}), **meta})

    def _with_meta(self, result: dict[str, Any]) -> dict[str, Any]:
        return result if self.result_meta is None else {**result, "_meta": dict(self.result_meta)}


@dataclass(frozen=True, slots=True)
class ToolResponse(Response):
    """The result of a tool: content blocks for the model, structured content for programs."""

    blocks: tuple[Content, ...] = ()
    structure: Any = MISSING
    is_error: bool = False

    def add(self, *blocks: str | Content) -> Self:
        """Add content blocks; a string becomes a text block."""
        return replace(self, blocks=(*self.blocks, *map(block, blocks)))

    def text(self, text: str, *, annotations: AnyAnnotations = None) -> Self:
        """Add a text block."""
        return self.add(TextContent(text, annotations))

    def json(self, value: Any, *, annotations: AnyAnnotations = None) -> Self:
        """Add a value as a text block of JSON, without structured content."""
        return self.text(serializers.encoded(value).decode(), annotations=annotations)

    def structured(self, value: Any) -> Self:
        """Set the structured content, and add it as JSON text for older clients."""
        json = serializers.encoded(value)
        return replace(self.text(json.decode()), structure=serializers.decoded(json))

    def image(
        self, data: bytes | str, mime_type: str, *, annotations: AnyAnnotations = None
    ) -> Self:
        """Add an image: bytes, or a base64 string."""
        return self.add(ImageContent(data, mime_type, annotations))

    def audio(
        self, data: bytes | str, mime_type: str, *, annotations: AnyAnnotations = None
    ) -> Self:
        """Add audio: bytes, or a base64 string."""
        return self.add(AudioContent(data, mime_type, annotations))

    def embedded_resource(
        self,
        uri: str,
        *,
        text: str | None = None,
        blob: bytes | str | None = None,
        mime_type: str | None = None,
        annotations: AnyAnnotations = None,
        meta: Json | None = None,
    ) -> Self:
        """Add a resource with its text or its blob."""
        return self.add(EmbeddedResource(uri, text, blob, mime_type, annotations, meta))

    def resource_link(
        self,
        uri: str,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: Sequence[Icon | str | Mapping[str, Any]] = (),
        annotations: AnyAnnotations = None,
        meta: Json | None = None,
    ) -> Self:
        """Add a link to a resource that the client may read."""
        return self.add(
            ResourceLink(uri, name, title, description, mime_type, size, icons, annotations, meta)
        )

    def file(self, file: Any, **options: Any) -> Self:  # type: ignore[override]
        """Add the contents of a file, as an image, audio, text or an embedded resource."""
        return self.add(_read_file(file, **{**NO_FILE_OPTIONS, **options}).block())

    def error(self, message: str) -> Self:
        """Mark the result as an error, and add a message that tells the model what to do."""
        return replace(self.text(message), is_error=True)

    def to_protocol(self) -> dict[str, Any]:
        result: dict[str, Any] = {"content": [each.to_protocol() for each in self.blocks]}
        if self.structure is not MISSING:
            result["structuredContent"] = self.structure
        if self.is_error:
            result["isError"] = True
        return self._with_meta(result)


@dataclass(frozen=True, slots=True)
class PromptResponse(Response):
    """The result of a prompt: the first messages of a conversation."""

    description: str | None = None
    messages: tuple[Message, ...] = ()

    def user(self, content: str | Content) -> Self:
        """Add a message of the user."""
        return self.add(Message("user", content))

    def assistant(self, content: str | Content) -> Self:
        """Add a message of the assistant."""
        return self.add(Message("assistant", content))

    def system(self, content: str | Content) -> Self:
        """Add a message of the user: MCP has no system role."""
        return self.user(content)

    def add(self, *messages: Message) -> Self:
        """Add messages."""
        return replace(self, messages=(*self.messages, *messages))

    def to_protocol(self) -> dict[str, Any]:
        result: dict[str, Any] = {"messages": [each.to_protocol() for each in self.messages]}
        if self.description is not None:
            result["description"] = str(self.description)
        return self._with_meta(result)


@dataclass(frozen=True, slots=True)
class ResourceResponse(Response):
    """The result of reading a resource: its contents, and the contents of related resources."""

    contents: Mapping[str, Any] | None = None
    """The contents of the resource itself, without its URI."""
    others: tuple[EmbeddedResource, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)
    cache: CacheHint | None = None
    """The cache hint of these contents, in place of that of the component."""

    def text(self, text: str, *, mime_type: str | None = None) -> Self:
        """Set the contents to a text."""
        return self._with_contents(text=str(text), mime_type=mime_type)

    def json(self, value: Any, *, mime_type: str = "application/json") -> Self:
        """Set the contents to a value as JSON."""
        return self._with_contents(text=serializers.encoded(value).decode(), mime_type=mime_type)

    def blob(self, data: bytes | str, *, mime_type: str | None = None) -> Self:
        """Set the contents to bytes, or a base64 string."""
        return self._with_contents(blob=data, mime_type=mime_type)

    def add(
        self,
        uri: str,
        *,
        text: str | None = None,
        blob: bytes | str | None = None,
        mime_type: str | None = None,
    ) -> Self:
        """Add the contents of another resource, such as a file of a folder."""
        return replace(self, others=(*self.others, EmbeddedResource(uri, text, blob, mime_type)))

    def name(self, name: str) -> Self:
        """Add the name to the contents."""
        return self._with_members(name=str(name))

    def description(self, description: str) -> Self:
        """Add the description to the contents."""
        return self._with_members(description=str(description))

    def size(self, size: int) -> Self:
        """Add the size in bytes to the contents."""
        return self._with_members(size=size)

    def to_protocol(self, uri: str, mime_type: str | None = None) -> dict[str, Any]:
        """The result in the format of the protocol; ``mime_type`` is the default of its items."""
        text_type = mime_type or "text/plain"
        blob_type = mime_type or "application/octet-stream"
        items = self.others
        if self.contents is not None or not items:
            items = (EmbeddedResource(uri, **(self.contents or {"text": ""})), *items)
        contents = [each.contents(text_type if each.blob is None else blob_type) for each in items]
        if self.members:
            contents[0] = {**contents[0], **self.members}
        hint = {} if self.cache is None else self.cache.to_protocol()
        return self._with_meta({"contents": contents, **hint})

    def _with_contents(self, **contents: Any) -> Self:
        # Validated here, so that the error is raised where the mistake was made.
        EmbeddedResource("urn:mcp:contents", **contents)
        return replace(self, contents=contents)

    def _with_members(self, **members: Any) -> Self:
        return replace(self, members={**self.members, **members})


@dataclass(frozen=True, slots=True)
class CompletionResponse(Response):
    """The result of a completion: values for an argument."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool | None = None

    def add(self, *values: str) -> Self:
        """Add values."""
        return replace(self, values=(*self.values, *map(str, values)))

    def with_pagination(self, total: int | None = None, has_more: bool | None = None) -> Self:
        """Set the number of all values, and whether there are more than the added ones."""
        if total is not None and total < len(self.values):
            raise ValueError("total counts all values, including the added ones")
        return replace(self, total=total, has_more=has_more)

    def to_protocol(self) -> dict[str, Any]:
        """The result in the format of the protocol: at most a hundred values."""
        cut = len(self.values) > MAX_COMPLETIONS
        completion: dict[str, Any] = {"values": list(self.values[:MAX_COMPLETIONS])}
        total = len(self.values) if cut and self.total is None else self.total
        if total is not None:
            completion["total"] = total
        if cut or self.has_more is not None:
            completion["hasMore"] = bool(cut or self.has_more)
        return self._with_meta({"completion": completion})


NO_FILE_OPTIONS: Mapping[str, None] = dict.fromkeys(("mime_type", "name", "uri"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentResponse(Response):
    """One text or one file, as the result of a tool, a resource or a prompt."""

    data: str | bytes
    mime_type: str
    name: str = ""
    uri: str | None = None

    def block(self) -> Content:
        """The content block: an image, audio, text, or a resource of any other type."""
        if isinstance(self.data, str):
            return TextContent(self.data)
        if self.mime_type.startswith("image/"):
            return ImageContent(self.data, self.mime_type)
        if self.mime_type.startswith("audio/"):
            return AudioContent(self.data, self.mime_type)
        uri = self.uri or f"urn:mcp:file:{quote(self.name or 'unnamed', safe='')}"
        return EmbeddedResource(uri, mime_type=self.mime_type, **self._contents())

    def as_response(self, kind: type[Response]) -> Response:
        """The same as a response of ``kind``."""
        if kind is ToolResponse:
            response: Response = ToolResponse().add(self.block())
        elif kind is PromptResponse:
            response = PromptResponse().user(self.block())
        else:
            contents = self._contents()
            response = ResourceResponse()._with_contents(mime_type=self.mime_type, **contents)
        return replace(response, result_meta=self.result_meta)

    def _contents(self) -> dict[str, Any]:
        """The text, or the blob; a file of text is sent as one."""
        if isinstance(self.data, str):
            return {"text": self.data}
        if self.mime_type.startswith(TEXT_TYPES):
            with suppress(UnicodeDecodeError):
                return {"text": self.data.decode()}
        return {"blob": self.data}


def _read_file(
    file: Any, mime_type: str | None, name: str | None, uri: str | None
) -> ContentResponse:
    content = file if hasattr(type(file), "read") else serializers.converted(file)
    if not isinstance(content, ContentResponse):
        path = file if isinstance(file, PathLike) else getattr(file, "name", "")
        own_name = PurePath(path).name if isinstance(path, str | PathLike) else ""
        content = _with_type(_contents_of(file), name or own_name)
    return replace(
        content,
        mime_type=mime_type or content.mime_type,
        name=name or content.name,
        uri=uri or content.uri,
    )


def _with_type(data: str | bytes, name: str) -> ContentResponse:
    if len(data) > MAX_FILE_SIZE.get()():
        raise UnserializableResult(
            "A file has more bytes than MAX_RESULT_SIZE: return its URL, or a resource_link"
        )
    return ContentResponse(data=data, mime_type=_type_of(name), name=name)


COMPRESSED: Mapping[str, str] = {
    "br": "application/x-brotli",
    "bzip2": "application/x-bzip",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}
"""The types of compressed files, as Django's FileResponse has them."""


def _type_of(name: str) -> str:
    """The MIME type of the bytes of a file: ``orders.csv.gz`` is no text."""
    kind, compression = mimetypes.guess_type(name)
    if compression is not None:
        kind = COMPRESSED.get(compression)
    return kind or "application/octet-stream"


def _contents_of(file: Any) -> str | bytes:
    """The contents of a file, which is closed again if it was opened here."""
    enough_to_see_more = MAX_FILE_SIZE.get()() + 1
    if isinstance(file, bytes | bytearray | memoryview):
        return bytes(file)
    if isinstance(file, PathLike):
        with Path(file).open("rb") as opened:
            return opened.read(enough_to_see_more)
    if not hasattr(type(file), "read"):
        raise UnserializableResult(
            f"Response.file was given a {type(file).__qualname__}: give the value of a FileField, "
            "an open file, a Path, an image or bytes"
        )
    if not hasattr(type(file), "open"):
        contents: str | bytes = file.read(enough_to_see_more)
        return contents
    if not file:
        raise UnserializableResult("A FileField has no file: look before you return it")
    with file.open("rb") as opened:  # The value of a FileField, or another File of Django.
        contents = opened.read(enough_to_see_more)
    return contents
