"""Response builders that a handler returns where a plain value cannot express the result.

Each kind of component has its own builder: ``Response.tool()`` and so on. Builders are immutable:
every method returns a new one. Invalid values raise ValueError or UnserializableResult at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from django_mcp.components.serialization import compact, jsonable
from django_mcp.protocol.content import (
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
from django_mcp.protocol.errors import Json
from django_mcp.protocol.meta import check_keys

MAX_COMPLETIONS = 100
"""The maximum of values in one result (specification, completion, "Response Data")."""
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
        return self.text(compact(jsonable(value)), annotations=annotations)

    def structured(self, value: Any) -> Self:
        """Set the structured content, and add it as JSON text for older clients."""
        structure = jsonable(value)
        return replace(self.text(compact(structure)), structure=structure)

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

    def error(self, message: str) -> Self:
        """Mark the result as an error, and add a message from which the model can act."""
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
    """The result of reading a resource: its contents, and those of related resources."""

    contents: Mapping[str, Any] | None = None
    """The contents of the resource itself, without its URI."""
    others: tuple[EmbeddedResource, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)

    def text(self, text: str, *, mime_type: str | None = None) -> Self:
        """Set the contents to a text."""
        return self._with_contents(text=str(text), mime_type=mime_type)

    def json(self, value: Any, *, mime_type: str = "application/json") -> Self:
        """Set the contents to a value as JSON."""
        return self._with_contents(text=compact(jsonable(value)), mime_type=mime_type)

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
        text_type, blob_type = mime_type or "text/plain", mime_type or "application/octet-stream"
        items = self.others
        if self.contents is not None or not items:
            items = (EmbeddedResource(uri, **(self.contents or {"text": ""})), *items)
        contents = [each.contents(text_type if each.blob is None else blob_type) for each in items]
        if self.members:
            contents[0] = {**contents[0], **self.members}
        return self._with_meta({"contents": contents})

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
