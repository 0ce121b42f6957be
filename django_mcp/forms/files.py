"""Files as arguments of tools: an object with base64, which becomes an uploaded file."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile

from django_mcp.core.protocol.errors import ToolError

MAX_FILE_BYTES = 1_000_000
"""The largest file. A message, in which base64 takes a third more, has 4 MB at most."""
_MAX_ENCODED = (MAX_FILE_BYTES + 2) // 3 * 4
CONTENT_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
DEFAULT_CONTENT_TYPE = "application/octet-stream"


def schema(max_name_length: int | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a file."""
    return {
        "type": "object",
        "description": f"A file of at most {MAX_FILE_BYTES} bytes",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": max_name_length or 100},
            "content": {
                "type": "string",
                "description": "The bytes of the file as base64",
                "contentEncoding": "base64",
                "maxLength": _MAX_ENCODED,
            },
            "content_type": {
                "type": "string",
                "maxLength": 100,
                "default": DEFAULT_CONTENT_TYPE,
            },
        },
        "required": ["name", "content"],
        "additionalProperties": False,
    }


def uploaded(argument: str, value: Mapping[str, Any]) -> SimpleUploadedFile:
    """Return the file of a validated argument; raises ToolError for one that is none."""
    try:
        content = base64.b64decode(value["content"], validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(f"{argument}.content is not base64") from None
    if len(content) > MAX_FILE_BYTES:
        raise ToolError(f"{argument} has {len(content)} bytes, at most {MAX_FILE_BYTES} fit")
    content_type = value.get("content_type", DEFAULT_CONTENT_TYPE).partition(";")[0].strip()
    if not CONTENT_TYPE.fullmatch(content_type):
        raise ToolError(f"{argument}.content_type is not a media type such as text/plain")
    return SimpleUploadedFile(_file_name(argument, value["name"]), content, content_type)


def _file_name(argument: str, text: str) -> str:
    """Return a name without directories and control characters, as that of a browser's upload."""
    last = re.split(r"[/\\]", text)[-1]
    name = "".join(filter(str.isprintable, last))
    if name in ("", ".", ".."):
        raise ToolError(f"{argument}.name is no name of a file")
    return name
