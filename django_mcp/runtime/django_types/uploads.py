"""Files as arguments of tools: an object that a host or a model sends becomes an uploaded file.

A file is one object, as hosts that pass on files of a chat fill it in: ``download_url`` is where
the host has the file, or a ``data:`` URL with its bytes, from clients that pass on none. The URL of
a host is signed: whoever reads it has the file, so that it is in no message and in no log.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import (
    InMemoryUploadedFile,
    TemporaryUploadedFile,
    UploadedFile,
)
from django.http.request import validate_host

from django_mcp import conf
from django_mcp.core.components.arguments import FILE_MEMBERS, MEDIA_TYPE, FileLimits
from django_mcp.core.protocol.errors import Cancelled, ToolError
from django_mcp.core.protocol.limits import cut

MAX_INLINE_BYTES = 1_000_000
"""The largest file in a data: URL. A message has 4 MB at most, and base64 takes a third more."""
MAX_HEAD = 200
"""Characters of a data: URL before its bytes."""
MAX_URL = (MAX_INLINE_BYTES + 2) // 3 * 4 + MAX_HEAD
MAX_NAME = 255
DATA_URL = re.compile(r"data:([^,;]*)(?:;[^,;]*)*;base64,", re.ASCII | re.IGNORECASE)
DEFAULT_TYPE = "application/octet-stream"
UNKNOWN = frozenset({"", DEFAULT_TYPE, "binary/octet-stream"})
"""Media types that say nothing about a file."""
NO_LIMITS = FileLimits()


def schema(limits: FileLimits = NO_LIMITS) -> dict[str, Any]:
    """Return the JSON Schema of a file.

    ChatGPT requires these four properties, and that the first two are required and the others not:
    https://developers.openai.com/apps-sdk/reference.
    """
    words = (
        "The URL of a file of the conversation, which the host fills in. Otherwise a data: URL "
        f"with at most {MAX_INLINE_BYTES} bytes in base64, such as data:text/csv;base64,YSxi"
    )
    name = {"type": "string", "maxLength": MAX_NAME}
    return {
        "type": "object",
        "properties": {
            "download_url": {
                "type": "string",
                "description": f"{words}{limits.words()}",
                "maxLength": MAX_URL,
            },
            "file_id": {
                **name,
                "description": "The id that the host has given it; any text with a data: URL",
            },
            "mime_type": {"type": "string", "maxLength": 100},
            "file_name": name,
        },
        "required": ["download_url", "file_id"],
        "additionalProperties": False,
    }


class Uploads:
    """The files of a call, as a context: they are closed at its end, and temporary ones deleted.

    ``receive`` blocks, and may run on another thread than the context: a file that arrives after
    the end is closed at once.
    """

    def __init__(self) -> None:
        self._files: list[UploadedFile[Any]] = []
        self._has_ended = False

    def __enter__(self) -> Uploads:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended = True
        for file in self._files:
            file.close()

    def receive(self, argument: str, value: Any, limits: FileLimits = NO_LIMITS) -> Any:
        """Return the file, or the files, of an argument; None for None.

        The files of one argument have MAX_UPLOAD_SIZE and UPLOAD_TIMEOUT together. Raises ToolError
        for a value that is not a file, and for a file that the site does not accept.
        """
        if value is None:
            return None
        budget = _Budget.of(limits)
        if not isinstance(value, list):
            return self._kept(budget.receive(argument, value))
        return [
            self._kept(budget.receive(f"{argument}.{number}", each))
            for number, each in enumerate(value)
        ]

    def receive_all(self, arguments: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Return arguments with files for the values of ``names``; raises ToolError."""
        files = {name: self.receive(name, arguments[name]) for name in names if name in arguments}
        return {**arguments, **files}

    def _kept(self, file: UploadedFile[Any]) -> UploadedFile[Any]:
        self._files.append(file)
        if self._has_ended:
            file.close()
            raise Cancelled
        return file


@dataclass(slots=True)
class _Budget:
    """The remaining bytes and seconds for the files of one argument."""

    limits: FileLimits
    bytes_left: int
    until: float

    @classmethod
    def of(cls, limits: FileLimits) -> _Budget:
        site = conf.get()
        return cls(limits, site.max_upload_size, time.monotonic() + site.upload_timeout)

    def receive(self, argument: str, value: Any) -> UploadedFile[Any]:
        is_file = isinstance(value, Mapping) and value.keys() >= FILE_MEMBERS
        if not is_file or not all(isinstance(member, str) for member in value.values()):
            raise ToolError(f"{argument}: give a file as an object with download_url and file_id")
        claimed_type = _media_type(argument, value.get("mime_type", ""))
        self._check_type(argument, claimed_type)
        content = _Content()
        try:
            url = value["download_url"]
            if url[:5].lower() == "data:":
                sent_type = self._decode(argument, url, content)
            else:
                sent_type = self._download(argument, url, content)
            self._check_type(argument, sent_type)
            media_type = sent_type if claimed_type in UNKNOWN else claimed_type
            if self.limits.content_types and media_type in UNKNOWN:
                raise ToolError(f"{argument}: the type of the file is not known")
            name = _name(argument, value, media_type)
        except BaseException:
            content.close()
            raise
        self.bytes_left -= content.size
        return content.uploaded(name, media_type or DEFAULT_TYPE)

    @property
    def _most(self) -> int:
        most = self.limits.max_size
        return self.bytes_left if most is None else min(most, self.bytes_left)

    def _check_type(self, argument: str, media_type: str) -> None:
        if media_type not in UNKNOWN and not self.limits.accepts(media_type):
            accepted = ", ".join(self.limits.content_types)
            raise ToolError(f"{argument}: {cut(media_type)} is not accepted, but {accepted}")

    def _decode(self, argument: str, url: str, content: _Content) -> str:
        """Write the bytes of a data: URL; return its media type."""
        head = DATA_URL.match(url, 0, MAX_HEAD)
        if head is None:
            raise ToolError(f"{argument}.download_url is not data:TYPE;base64,…")
        try:
            data = base64.b64decode(url[head.end() :], validate=True)
        except (binascii.Error, ValueError):
            raise ToolError(f"{argument}.download_url is not base64") from None
        most = min(MAX_INLINE_BYTES, self._most)
        if len(data) > most:
            raise ToolError(f"{argument} has {len(data)} bytes, at most {most} fit")
        content.write(data)
        return _media_type(argument, head[1])

    def _download(self, argument: str, url: str, content: _Content) -> str:
        """Write the body at a URL; return its media type."""
        # Imported for a file that a host has sent by its URL.
        from django_mcp.outbound import OutboundError, check_url, download

        most = self._most
        left = self.until - time.monotonic()
        try:
            host = check_url(url).hostname or ""
            if not validate_host(host, conf.get().upload_hosts):
                raise ToolError(
                    f"{argument}: this site accepts no files from {cut(host)}, unless its "
                    "administrator adds the host to UPLOAD_HOSTS"
                )
            if left <= 0:
                raise OutboundError("timeout", "The host does not answer in time")
            document = download(url, content, max_bytes=most, timeout=left)
        except OutboundError as error:
            if error.reason == "too_large":
                raise ToolError(f"{argument} has more than {most} bytes") from None
            raise ToolError(f"{argument}.download_url: {error}") from None
        return document.content_type if MEDIA_TYPE.fullmatch(document.content_type) else ""


class _Content:
    """The bytes of a file: in memory up to FILE_UPLOAD_MAX_MEMORY_SIZE, and otherwise on disk."""

    def __init__(self) -> None:
        self.size = 0
        self._memory = BytesIO()
        self._temporary: TemporaryUploadedFile | None = None

    def write(self, data: bytes) -> int:
        self.size += len(data)
        if self._temporary is None and self.size > settings.FILE_UPLOAD_MAX_MEMORY_SIZE:
            self._temporary = TemporaryUploadedFile("file", DEFAULT_TYPE, 0, None)
            self._temporary.write(self._memory.getvalue())
            self._memory.close()
        return (self._temporary or self._memory).write(data)

    def uploaded(self, name: str, media_type: str) -> UploadedFile[Any]:
        """Return the file, at its beginning."""
        if self._temporary is None:
            self._memory.seek(0)
            return InMemoryUploadedFile(
                self._memory, None, name, media_type, self.size, charset=None
            )
        self._temporary.name = name
        self._temporary.content_type = media_type
        self._temporary.size = self.size
        self._temporary.seek(0)
        return self._temporary

    def close(self) -> None:
        (self._temporary or self._memory).close()


def _media_type(argument: str, text: str) -> str:
    media_type = text.partition(";")[0].strip().lower()
    if media_type and not MEDIA_TYPE.fullmatch(media_type):
        raise ToolError(f"{argument}.mime_type is not a media type such as text/plain")
    return media_type


def _name(argument: str, value: Mapping[str, str], media_type: str) -> str:
    """Return a name without directories and control characters, as a browser would send it."""
    given = value.get("file_name")
    if given is None:
        given = f"{value['file_id']}{mimetypes.guess_extension(media_type) or ''}"
    last = re.split(r"[/\\]", given)[-1]
    name = "".join(filter(str.isprintable, last))[-MAX_NAME:]
    if name in ("", ".", ".."):
        raise ToolError(f"{argument}.file_name is no name of a file")
    return name
