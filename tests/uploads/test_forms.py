"""Files of hosts in the fields of forms."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from django import forms
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import connection
from PIL import Image

from django_mcp import Frame, Server
from django_mcp.forms import form_tool
from django_mcp.runtime.django_types.uploads import Uploads
from django_mcp.testing import SyncClient
from tests.outbound.conftest import Host
from tests.uploads.files import LARGE, inline, of_host, serve

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

pytestmark = pytest.mark.django_db(transaction=True)


class PricesForm(forms.Form):
    title = forms.CharField()
    prices = forms.FileField(max_length=20)
    cover = forms.ImageField(required=False)


def call(server: Server, **arguments: Any) -> Any:
    with SyncClient(server) as client:
        return client.call_tool("prices", arguments)


def png() -> bytes:
    """Return a PNG."""
    content = BytesIO()
    Image.new("RGB", (2, 2)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def received() -> list[Any]:
    """The files that the form had."""
    return []


@pytest.fixture
def server(received: list[Any]) -> Server:
    def on_valid(form: Any, frame: Frame) -> Any:
        prices = form.cleaned_data["prices"]
        received.append(prices)
        return {"size": len(prices.read()), "cover": bool(form.cleaned_data["cover"])}

    server = Server("desk")
    form_tool(PricesForm, on_valid=on_valid, server=server)
    return server


def test_file_of_a_host_is_that_of_the_form(
    server: Server, chat: Host, received: list[Any]
) -> None:
    serve(chat, LARGE)

    result = call(server, title="A", prices=of_host(chat, file_name="p.csv"))

    assert result.structured == {"size": len(LARGE), "cover": False}
    (file,) = received
    assert isinstance(file, TemporaryUploadedFile)
    assert (file.name, file.content_type, file.closed) == ("p.csv", "text/csv", True)


def test_host_sends_the_file_before_the_transaction(
    server: Server, chat: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_transaction: list[bool] = []
    keep = Uploads._kept

    def noted(self: Uploads, file: UploadedFile[Any]) -> UploadedFile[Any]:
        in_transaction.append(connection.in_atomic_block)
        return keep(self, file)

    monkeypatch.setattr(Uploads, "_kept", noted)
    serve(chat, b"a")

    assert not call(server, title="A", prices=of_host(chat)).is_error
    assert in_transaction == [False]


def test_form_names_the_arguments_for_which_hosts_send_files(server: Server) -> None:
    with SyncClient(server) as client:
        (tool,) = client.list_tools()

    assert tool["_meta"] == {"openai/fileParams": ["prices", "cover"]}


def test_validators_of_the_form_judge_the_file(server: Server, chat: Host) -> None:
    serve(chat, b"no image", "image/png")

    result = call(server, title="A", prices=inline(b"a", "a.csv"), cover=of_host(chat))
    long_name = call(server, title="A", prices=inline(b"a", "a" * 30))
    image = call(server, title="A", prices=inline(b"a", "a.csv"), cover=inline(png(), "a.png"))

    assert "cover: Upload a valid image." in result.text
    assert "prices: Ensure this filename has at most 20 characters" in long_name.text
    assert image.structured == {"size": 1, "cover": True}


def test_refused_file_is_named_by_its_field(server: Server, host: Host) -> None:
    result = call(server, title="A", prices=of_host(host))

    assert result.text.startswith("prices: this site accepts no files from")
