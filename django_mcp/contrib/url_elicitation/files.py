"""The files of an answer: they are stored in its row, encrypted, and deleted with it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.datastructures import MultiValueDict

from django_mcp import conf

MAX_BYTES = 5_000_000
"""All files of an answer: encrypted, they take twice as much, and databases bound a statement at
16 MB."""


def max_bytes() -> int:
    """Return the limit of this site."""
    return min(MAX_BYTES, conf.get().max_upload_size)


def stored(lists: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return uploaded files, which are listed by the names of their inputs, as JSON."""
    return {name: [_stored(file) for file in files] for name, files in lists}


def restored(content: Mapping[str, Any]) -> MultiValueDict[str, Any]:
    """Return the uploaded files of what ``stored`` returned."""
    return MultiValueDict({name: [*map(_restored, files)] for name, files in content.items()})


def _stored(file: Any) -> dict[str, str | None]:
    return {
        "name": file.name,
        "type": file.content_type,
        "content": b64encode(file.read()).decode(),
    }


def _restored(file: Mapping[str, Any]) -> SimpleUploadedFile:
    return SimpleUploadedFile(file["name"], b64decode(file["content"]), file["type"])
