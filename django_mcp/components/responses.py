"""Response: an answer put together piece by piece, for when a plain value cannot say it.

Each kind of component has its own builder, made by ``Response.tool()`` and its like. Nothing
changes in place: every method returns a new one. What cannot be meant raises ValueError or
UnfitResult at once, where it was written.
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

MOST_COMPLETIONS = 100
"""More values than these are never sent (specification, completion, "Response Data")."""


class _Nothing:
    """No structured content, which is not the same as null."""


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True)
class Response:
    """An answer being built: begin with ``Response.tool()``, or the like for another kind."""

    result_meta: Json | None = field(default=None, kw_only=True)

    @staticmethod
    def tool() -> ToolResponse:
        """What a tool answers."""
        return ToolResponse()

    @staticmethod
    def prompt(description: str | None = None) -> PromptResponse:
        """What a prompt answers."""
        return PromptResponse(description=description)

    @staticmethod
    def resource() -> ResourceResponse:
        """What reading a resource answers."""
        return ResourceResponse()

    @staticmethod
    def completion(values: Iterable[str] = ()) -> CompletionResponse:
        """What completing an argument answers."""
        return CompletionResponse(values=tuple(map(str, values)))

    def meta(self, meta: Json) -> Self:
        """Add to the ``_meta`` of the result; ValueError for a key which cannot be yours."""
        check_keys(meta)
        return replace(self, result_meta={**(self.result_meta or {}), **meta})

    def _finished(self, result: dict[str, Any]) -> dict[str, Any]:
        return result if self.result_meta is None else {**result, "_meta": dict(self.result_meta)}


@dataclass(frozen=True, slots=True)
class ToolResponse(Response):
    """What a tool answers: blocks for the model to read, and a structure for programs."""

    blocks: tuple[Content, ...] = ()
    structure: Any = NOTHING
    is_error: bool = False

    def add(self, *blocks: str | Content) -> Self:
        """Say further blocks; a string is text."""
        return replace(self, blocks=(*self.blocks, *map(block, blocks)))

    def text(self, text: str, *, annotations: AnyAnnotations = None) -> Self:
        """Say a text."""
        return self.add(TextContent(text, annotations))

    def json(self, value: Any, *, annotations: AnyAnnotations = None) -> Self:
        """Say a value as JSON text, and as nothing more."""
        return self.text(compact(jsonable(value)), annotations=annotations)

    def structured(self, value: Any) -> Self:
        """Give the structured content, and say it as JSON text for clients that look there."""
        structure = jsonable(value)
        return replace(self.text(compact(structure)), structure=structure)

    def image(
        self, data: bytes | str, mime_type: str, *, annotations: AnyAnnotations = None
    ) -> Self:
        """Show an image: bytes, or a string which is base64 already."""
        return self.add(ImageContent(data, mime_type, annotations))

    def audio(
        self, data: bytes | str, mime_type: str, *, annotations: AnyAnnotations = None
    ) -> Self:
        """Play a sound: bytes, or a string which is base64 already."""
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
        """Enclose a resource with its text or its blob."""
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
        """Point to a resource which the client may read."""
        return self.add(
            ResourceLink(
                uri,
                name,
                title=title,
                description=description,
                mime_type=mime_type,
                size=size,
                icons=icons,
                annotations=annotations,
                meta=meta,
            )
        )

    def error(self, message: str) -> Self:
        """Say that the tool failed, and why, for the model to act upon."""
        return replace(self.text(message), is_error=True)

    def to_protocol(self) -> dict[str, Any]:
        """The result as it travels."""
        result: dict[str, Any] = {"content": [each.to_protocol() for each in self.blocks]}
        if self.structure is not NOTHING:
            result["structuredContent"] = self.structure
        if self.is_error:
            result["isError"] = True
        return self._finished(result)


@dataclass(frozen=True, slots=True)
class PromptResponse(Response):
    """What a prompt answers: the messages of a conversation to begin with."""

    description: str | None = None
    messages: tuple[Message, ...] = ()

    def user(self, content: str | Content) -> Self:
        """Let the user say this."""
        return self.add(Message("user", content))

    def assistant(self, content: str | Content) -> Self:
        """Let the assistant say this."""
        return self.add(Message("assistant", content))

    def system(self, content: str | Content) -> Self:
        """Instruct the assistant. MCP has no such role: it is sent as the user's."""
        return self.user(content)

    def add(self, *messages: Message) -> Self:
        """Add messages."""
        return replace(self, messages=(*self.messages, *messages))

    def to_protocol(self) -> dict[str, Any]:
        """The result as it travels."""
        result: dict[str, Any] = {"messages": [each.to_protocol() for each in self.messages]}
        if self.description is not None:
            result["description"] = str(self.description)
        return self._finished(result)


@dataclass(frozen=True, slots=True)
class ResourceResponse(Response):
    """What reading a resource answers: its contents, and those of others that belong to it."""

    contents: Mapping[str, Any] | None = None
    """The contents of the resource itself, without its URI."""
    others: tuple[EmbeddedResource, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)

    def text(self, text: str, *, mime_type: str | None = None) -> Self:
        """The contents are this text, in the place of what they were."""
        return self._contain(text=str(text), mime_type=mime_type)

    def json(self, value: Any, *, mime_type: str = "application/json") -> Self:
        """The contents are this value as JSON, in the place of what they were."""
        return self._contain(text=compact(jsonable(value)), mime_type=mime_type)

    def blob(self, data: bytes | str, *, mime_type: str | None = None) -> Self:
        """The contents are these bytes, in the place of what they were."""
        return self._contain(blob=data, mime_type=mime_type)

    def add(
        self,
        uri: str,
        *,
        text: str | None = None,
        blob: bytes | str | None = None,
        mime_type: str | None = None,
    ) -> Self:
        """Add the contents of another resource: the files of a folder, for instance."""
        return replace(self, others=(*self.others, EmbeddedResource(uri, text, blob, mime_type)))

    def name(self, name: str) -> Self:
        """Say the name beside the contents."""
        return self._tell(name=str(name))

    def description(self, description: str) -> Self:
        """Say the description beside the contents."""
        return self._tell(description=str(description))

    def size(self, size: int) -> Self:
        """Say the size in bytes beside the contents."""
        return self._tell(size=size)

    def to_protocol(
        self,
        uri: str,
        *,
        text_type: str = "text/plain",
        blob_type: str = "application/octet-stream",
    ) -> dict[str, Any]:
        """The result as it travels; the types are those of what was added without one."""
        items = [self._own(uri)] if self.contents is not None or not self.others else []
        contents = [
            each.contents(text_type if each.blob is None else blob_type)
            for each in (*items, *self.others)
        ]
        if self.members:
            contents[0] = {**contents[0], **self.members}
        return self._finished({"contents": contents})

    def _own(self, uri: str) -> EmbeddedResource:
        return EmbeddedResource(uri, **(self.contents or {"text": ""}))

    def _contain(self, **contents: Any) -> Self:
        # Made once here, so that a mistake is reported where it was written.
        EmbeddedResource("urn:mcp:contents", **contents)
        return replace(self, contents=contents)

    def _tell(self, **members: Any) -> Self:
        return replace(self, members={**self.members, **members})


@dataclass(frozen=True, slots=True)
class CompletionResponse(Response):
    """What completing an argument answers: the values it may take."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool | None = None

    def add(self, *values: str) -> Self:
        """Suggest further values."""
        return replace(self, values=(*self.values, *map(str, values)))

    def with_pagination(self, total: int | None = None, has_more: bool | None = None) -> Self:
        """Say how many values there are in all, and whether there are more than were given."""
        if total is not None and total < len(self.values):
            raise ValueError("total counts all values, also those which are given")
        return replace(self, total=total, has_more=has_more)

    def to_protocol(self) -> dict[str, Any]:
        """The result as it travels: at most a hundred values."""
        cut = len(self.values) > MOST_COMPLETIONS
        completion: dict[str, Any] = {"values": list(self.values[:MOST_COMPLETIONS])}
        total = len(self.values) if cut and self.total is None else self.total
        if total is not None:
            completion["total"] = total
        if cut or self.has_more is not None:
            completion["hasMore"] = bool(cut or self.has_more)
        return self._finished({"completion": completion})
