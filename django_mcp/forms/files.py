"""Files as arguments of tools: an object with base64, which becomes an uploaded file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile

from django_mcp.protocol.errors import ToolError

MAX_FILE_BYTES = 1_000_000
"""The largest file. A message, in which base64 takes a third more, has 4 MB at most."""
_MAX_ENCODED = (MAX_FILE_BYTES + 2) // 3 * 4


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
                "default": "application/octet-stream",
            },
        },
        "required": ["name", "content"],
        "additionalProperties": False,
    }


def uploaded(argument: str, value: Mapping[str, Any]) -> SimpleUploadedFile:
    """Return the file of a validated argument; raises ToolError where it is not base64."""
    try:
        content = base64.b64decode(value["content"], validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(f"{argument}.content is not base64") from None
    if len(content) > MAX_FILE_BYTES:
        raise ToolError(f"{argument} has {len(content)} bytes, at most {MAX_FILE_BYTES} fit")
    content_type = value.get("content_type", "application/octet-stream")
    # The name that Django derives has no directory.
    return SimpleUploadedFile(value["name"], content, content_type)
