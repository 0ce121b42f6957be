"""The form to try a tool with a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from django_mcp.admin.try_it.forms import SchemaForm
from django_mcp.core.components.tool import tool_component

if TYPE_CHECKING:
    Upload = UploadedFile[Any]
else:
    Upload = UploadedFile  # Django's own is no generic class.


def test_file_is_chosen_in_the_browser_and_sent_in_a_data_url() -> None:
    def read(file: Upload, cover: Upload | None = None) -> None: ...

    chosen = SimpleUploadedFile("a.csv", b"a,b", "text/csv")
    schema = tool_component(read).input_schema
    (name, _) = SchemaForm(schema, name="arguments").fields

    form = SchemaForm(schema, QueryDict(), MultiValueDict({name: [chosen]}), name="arguments")

    assert form.is_multipart()
    assert form.is_valid()
    assert form.value() == {
        "file": {
            "download_url": "data:text/csv;base64,YSxi",
            "file_id": "upload",
            "mime_type": "text/csv",
            "file_name": "a.csv",
        }
    }
