"""Forms with files, which reach the parser of a view without being encoded.

Whatever a name or a content contains, it stays that name or content: it can neither contain a
boundary nor add a header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

Files = MultiValueDict[str, Any]
"""Uploaded files."""

BOUNDARY = "form"


@dataclass(frozen=True, slots=True)
class FormData:
    """The fields and the files of a form, as a parser returns them."""

    fields: QueryDict
    files: Files

    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    body = f"--{BOUNDARY}--\r\n".encode()
    """An empty form, for a view that reads the bytes of the request itself."""

    def handler(self) -> FileUploadHandler:
        """Return the upload handler of a request with this form."""
        return _ParsedForm(self)


class _ParsedForm(FileUploadHandler):
    """Replaces the parsing of a form, as Django lets upload handlers do.

    ``MultiPartParser`` of REST framework and Django's own ``request.POST`` ask it.
    """

    def __init__(self, form: FormData) -> None:
        super().__init__()
        self._form = form

    def handle_raw_input(self, *_: Any, **__: Any) -> tuple[QueryDict, Files]:
        return self._form.fields, self._form.files


def of_values(values: Mapping[str, Any]) -> FormData:
    """Return the form of values: a list is several values of one field, null is left out."""
    fields = QueryDict(mutable=True)
    files: Files = MultiValueDict()
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, UploadedFile):
                files.appendlist(name, item)
            elif isinstance(item, bool | dict | list):
                fields.appendlist(name, json.dumps(item))  # A JSONField reads it.
            elif item is not None:
                fields.appendlist(name, str(item))
    return FormData(fields, files)
