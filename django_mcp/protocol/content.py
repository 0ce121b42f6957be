"""What can be said in a result: text, images, audio, links, embedded resources; and their icons.

A block is a frozen value which checks itself when it is made, so that a mistake is reported
where it was written, and says with ``to_protocol()`` how it travels.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from django_mcp.protocol.errors import Json
from django_mcp.protocol.meta import check_keys

Role = Literal["user", "assistant"]
ROLES = ("user", "assistant")


class Dated(Protocol):
    """A date or a datetime, which this package does not import."""

    def isoformat(self) -> str:
        """As ISO 8601 writes it."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """For whom a block is, how much it matters (0 to 1), and when it last changed."""

    audience: Sequence[Role] | None = None
    priority: float | None = None
    last_modified: str | Dated | None = None

    def __post_init__(self) -> None:
        if self.audience is not None and (
            isinstance(self.audience, str) or any(who not in ROLES for who in self.audience)
        ):
            raise ValueError('audience is a list of "user" and "assistant"')
        if self.priority is not None and not _is_priority(self.priority):
            raise ValueError("priority is a number from 0 (least) to 1 (most important)")

    @classmethod
    def of(cls, value: Annotations | Mapping[str, Any]) -> Annotations:
        """``value`` itself, or the annotations a mapping names in Python's spelling or the wire's.

        Raises ValueError for a name which annotations do not have.
        """
        if isinstance(value, Annotations):
            return value
        named = {_ANNOTATION_NAMES.get(name, name): item for name, item in value.items()}
        unknown = sorted(map(str, named.keys() - {"audience", "priority", "last_modified"}))
        if unknown:
            raise ValueError(
                f"annotations have an audience, a priority and last_modified, not {unknown[0]}"
            )
        return cls(**named)

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        modified = self.last_modified
        return _present(
            audience=None if self.audience is None else list(self.audience),
            priority=self.priority,
            lastModified=(
                modified if modified is None or isinstance(modified, str) else modified.isoformat()
            ),
        )


_ANNOTATION_NAMES = {"lastModified": "last_modified"}
AnyAnnotations = Annotations | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Icon:
    """A picture which a client may show beside a name: an https: or data: address."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: Literal["light", "dark"] | None = None

    def __post_init__(self) -> None:
        if not self.src.startswith(("https:", "http:", "data:")):
            raise ValueError("the src of an icon is an https:, http: or data: address")
        if self.theme not in (None, "light", "dark"):
            raise ValueError('the theme of an icon is "light" or "dark"')

    @classmethod
    def of(cls, value: Icon | str | Mapping[str, Any]) -> Icon:
        """``value`` itself, the icon at an address, or the one a mapping describes."""
        if isinstance(value, Icon):
            return value
        if isinstance(value, str):
            return cls(value)
        named = {"mime_type" if name == "mimeType" else name: item for name, item in value.items()}
        try:
            return cls(**named)
        except TypeError as error:
            raise ValueError("an icon has a src, a mime_type, sizes and a theme") from error

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        return _present(
            src=self.src,
            mimeType=self.mime_type,
            sizes=None if self.sizes is None else list(self.sizes),
            theme=self.theme,
        )


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text."""

    text: str
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        _check_extras(self.annotations, self.meta)

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        return {"type": "text", "text": str(self.text), **_extras(self.annotations, self.meta)}


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image: bytes, or a string which is base64 already."""

    data: bytes | str
    mime_type: str
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        _check_mime_type(self.mime_type)
        _check_extras(self.annotations, self.meta)

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        extras = _extras(self.annotations, self.meta)
        return {
            "type": "image",
            "data": base64(self.data),
            "mimeType": self.mime_type,
            **extras,
        }


@dataclass(frozen=True, slots=True)
class AudioContent:
    """A sound: bytes, or a string which is base64 already."""

    data: bytes | str
    mime_type: str
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        _check_mime_type(self.mime_type)
        _check_extras(self.annotations, self.meta)

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        extras = _extras(self.annotations, self.meta)
        return {
            "type": "audio",
            "data": base64(self.data),
            "mimeType": self.mime_type,
            **extras,
        }


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """The address of a resource, which the client may read when it wants."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Icon | str | Mapping[str, Any]] = ()
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        _check_uri(self.uri)
        if not self.name:
            raise ValueError("a resource link needs a name")
        if self.mime_type is not None:
            _check_mime_type(self.mime_type)
        _check_extras(self.annotations, self.meta)

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        members = _present(
            title=None if self.title is None else str(self.title),
            description=None if self.description is None else str(self.description),
            mimeType=self.mime_type,
            size=self.size,
            icons=[Icon.of(icon).to_protocol() for icon in self.icons] or None,
        )
        return {
            "type": "resource_link",
            "uri": self.uri,
            "name": str(self.name),
            **members,
            **_extras(self.annotations, self.meta),
        }


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource with its contents: a text, or a blob (bytes, or base64 already)."""

    uri: str
    text: str | None = None
    blob: bytes | str | None = None
    mime_type: str | None = None
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        _check_uri(self.uri)
        if (self.text is None) == (self.blob is None):
            raise ValueError("a resource has either a text or a blob")
        if self.mime_type is not None:
            _check_mime_type(self.mime_type)
        _check_extras(self.annotations, self.meta)

    def contents(self, mime_type: str | None = None) -> dict[str, Any]:
        """What is inside, as resources/read says it; ``mime_type`` where none was given."""
        members = _present(mimeType=self.mime_type or mime_type)
        if self.blob is not None:
            return {"uri": self.uri, **members, "blob": base64(self.blob)}
        return {"uri": self.uri, **members, "text": str(self.text)}

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        extras = _extras(self.annotations, self.meta)
        return {"type": "resource", "resource": self.contents(), **extras}


Content = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
"""The classes of Content, for isinstance."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt. A string is said as text, a mapping as the block which it is."""

    role: Role
    content: str | Content | Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError('the role of a message is "user" or "assistant"')
        if isinstance(self.content, Mapping) and "type" not in self.content:
            raise ValueError("a mapping is no content of a message unless it has a type")

    def to_protocol(self) -> dict[str, Any]:
        """As it travels."""
        said = self.content
        travels = dict(said) if isinstance(said, Mapping) else block(said).to_protocol()
        return {"role": self.role, "content": travels}


def block(value: str | Content) -> Content:
    """``value`` as content: a string is text."""
    return value if isinstance(value, CONTENT) else TextContent(value)


def base64(data: bytes | str) -> str:
    """Bytes in standard base64; a string is that already."""
    return data if isinstance(data, str) else b64encode(data).decode("ascii")


def _present(**members: Any) -> dict[str, Any]:
    """The members which are something; absence is never said as null."""
    return {name: value for name, value in members.items() if value is not None}


def _extras(annotations: AnyAnnotations, meta: Json | None) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if annotations is not None:
        extras["annotations"] = Annotations.of(annotations).to_protocol()
    if meta is not None:
        extras["_meta"] = dict(meta)
    return extras


def _is_priority(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _check_extras(annotations: AnyAnnotations, meta: Json | None) -> None:
    if annotations is not None:
        Annotations.of(annotations)
    if meta is not None:
        check_keys(meta)


def _check_mime_type(mime_type: str) -> None:
    if "/" not in mime_type:
        raise ValueError(f'a MIME type has two parts, as "image/png"; this one is {mime_type!r}')


def _check_uri(uri: str) -> None:
    if not uri:
        raise ValueError("a resource needs a URI")
