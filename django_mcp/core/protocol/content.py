"""Content blocks and icons: frozen values, which are checked when they are created.

``to_protocol()`` returns a value as JSON.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.meta import check_keys

if TYPE_CHECKING:
    from datetime import date

Role = Literal["user", "assistant"]
ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Annotations:
    """The audience of a block, its priority (0 to 1), and when it was last modified."""

    audience: Sequence[Role] | None = None
    priority: float | None = None
    last_modified: str | date | None = None

    def __post_init__(self) -> None:
        audience = () if self.audience is None else self.audience
        if isinstance(audience, str) or any(role not in ROLES for role in audience):
            raise ValueError('audience is a list of "user" and "assistant"')
        is_number = isinstance(self.priority, int | float) and not isinstance(self.priority, bool)
        if self.priority is not None and not (is_number and 0 <= self.priority <= 1):
            raise ValueError("priority is a number from 0 (least) to 1 (most important)")

    @classmethod
    def of(cls, value: Annotations | Mapping[str, Any]) -> Annotations:
        """Return ``value``, or the annotations of a mapping, in snake or camel case.

        Raises ValueError for an unknown name.
        """
        if isinstance(value, Annotations):
            return value
        fields = {"last_modified" if k == "lastModified" else k: v for k, v in value.items()}
        unknown = sorted(map(str, fields.keys() - {"audience", "priority", "last_modified"}))
        if unknown:
            raise ValueError(
                f"annotations have an audience, a priority and last_modified, not {unknown[0]}"
            )
        return cls(**fields)

    def to_protocol(self) -> dict[str, Any]:
        modified = self.last_modified
        if modified is not None and not isinstance(modified, str):
            modified = modified.isoformat()
        return _present(
            audience=None if self.audience is None else list(self.audience),
            priority=self.priority,
            lastModified=modified,
        )


AnyAnnotations = Annotations | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Icon:
    """An image that a client may show beside a name, by its https: or data: URI."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: Literal["light", "dark"] | None = None

    def __post_init__(self) -> None:
        if not self.src.startswith(("https:", "http:", "data:")):
            raise ValueError("the src of an icon is an https:, http: or data: URI")
        if self.theme not in (None, "light", "dark"):
            raise ValueError('the theme of an icon is "light" or "dark"')

    @classmethod
    def of(cls, value: Icon | str | Mapping[str, Any]) -> Icon:
        """Return ``value``, or the icon of a URI or of a mapping."""
        if isinstance(value, Icon):
            return value
        if isinstance(value, str):
            return cls(value)
        fields = {"mime_type" if k == "mimeType" else k: v for k, v in value.items()}
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError("an icon has a src, a mime_type, sizes and a theme") from error

    def to_protocol(self) -> dict[str, Any]:
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
        return {"type": "text", "text": str(self.text), **_extras(self.annotations, self.meta)}


@dataclass(frozen=True, slots=True)
class _Media:
    """What an image and audio have in common."""

    data: bytes | str
    mime_type: str
    annotations: AnyAnnotations = None
    meta: Json | None = None

    _type: ClassVar[str]

    def __post_init__(self) -> None:
        _check_extras(self.annotations, self.meta, self.mime_type)

    def to_protocol(self) -> dict[str, Any]:
        media = {"type": self._type, "data": base64(self.data), "mimeType": self.mime_type}
        return {**media, **_extras(self.annotations, self.meta)}


class ImageContent(_Media):
    """An image: bytes, or a string of base64."""

    __slots__ = ()
    _type = "image"


class AudioContent(_Media):
    """Audio: bytes, or a string of base64."""

    __slots__ = ()
    _type = "audio"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """The URI of a resource, which the client may read later."""

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
        if not self.uri:
            raise ValueError("a resource needs a URI")
        if not self.name:
            raise ValueError("a resource link needs a name")
        _check_extras(self.annotations, self.meta, self.mime_type)

    def to_protocol(self) -> dict[str, Any]:
        members = _present(
            type="resource_link",
            uri=self.uri,
            name=str(self.name),
            title=None if self.title is None else str(self.title),
            description=None if self.description is None else str(self.description),
            mimeType=self.mime_type,
            size=self.size,
            icons=[Icon.of(icon).to_protocol() for icon in self.icons] or None,
        )
        return {**members, **_extras(self.annotations, self.meta)}


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    """A resource with its contents: text, or a blob (bytes, or a string of base64)."""

    uri: str
    text: str | None = None
    blob: bytes | str | None = None
    mime_type: str | None = None
    annotations: AnyAnnotations = None
    meta: Json | None = None

    def __post_init__(self) -> None:
        if not self.uri:
            raise ValueError("a resource needs a URI")
        if (self.text is None) == (self.blob is None):
            raise ValueError("a resource has either a text or a blob")
        _check_extras(self.annotations, self.meta, self.mime_type)

    def contents(self, mime_type: str | None = None) -> dict[str, Any]:
        """Return the contents as in resources/read; ``mime_type`` is the default MIME type."""
        return _present(
            uri=self.uri,
            mimeType=self.mime_type or mime_type,
            blob=None if self.blob is None else base64(self.blob),
            text=None if self.text is None else str(self.text),
        )

    def to_protocol(self) -> dict[str, Any]:
        extras = _extras(self.annotations, self.meta)
        return {"type": "resource", "resource": self.contents(), **extras}


Content = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
CONTENT = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
"""The classes of Content, for isinstance."""


MEMBERS: Mapping[str, str] = {
    "text": "text",
    "image": "data mimeType",
    "audio": "data mimeType",
    "resource": "resource",
    "resource_link": "uri name",
}
"""The types of blocks, and the members that each of them must have."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a prompt. A string becomes a text block; a mapping is a block itself."""

    role: Role
    content: str | Content | Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError('the role of a message is "user" or "assistant"')
        if not isinstance(self.content, Mapping):
            return
        kind = self.content.get("type")
        members = MEMBERS.get(str(kind))
        if members is None:
            raise ValueError(f"a block has the type {', '.join(MEMBERS)}, not {kind!r}")
        if missing := [member for member in members.split() if member not in self.content]:
            raise ValueError(f"a block of type {kind} needs {', '.join(missing)}")

    def to_protocol(self) -> dict[str, Any]:
        content = self.content
        as_json = dict(content) if isinstance(content, Mapping) else block(content).to_protocol()
        return {"role": self.role, "content": as_json}


def block(value: str | Content) -> Content:
    """Return ``value`` as a block; a string becomes a text block."""
    return value if isinstance(value, CONTENT) else TextContent(value)


def base64(data: bytes | str) -> str:
    """Return bytes in standard base64; a string is returned unchanged."""
    return data if isinstance(data, str) else b64encode(data).decode("ascii")


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _extras(annotations: AnyAnnotations, meta: Json | None) -> dict[str, Any]:
    as_json = None if annotations is None else Annotations.of(annotations).to_protocol()
    return _present(annotations=as_json, _meta=None if meta is None else dict(meta))


def _check_extras(
    annotations: AnyAnnotations, meta: Json | None, mime_type: str | None = None
) -> None:
    if mime_type is not None and "/" not in mime_type:
        raise ValueError(f'a MIME type has two parts, as "image/png"; this one is {mime_type!r}')
    if annotations is not None:
        Annotations.of(annotations)
    if meta is not None:
        check_keys(meta)
