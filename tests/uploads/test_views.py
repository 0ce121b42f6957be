"""Files of hosts in requests to views of REST framework and Django Ninja."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.urls import path
from pytest_django import Settings
from rest_framework import parsers, serializers, views
from rest_framework.response import Response

from django_mcp import Server
from django_mcp.rest import rest_tool
from django_mcp.testing import SyncClient
from tests.outbound.conftest import Host
from tests.rest import urls
from tests.uploads.files import LARGE, inline, of_host, serve

pytestmark = pytest.mark.django_db(transaction=True)

RECEIVED: list[Any] = []


class Pictures(serializers.Serializer):  # type: ignore[misc]
    title = serializers.CharField()
    picture = serializers.FileField(allow_null=True, required=False)
    others = serializers.ListField(child=serializers.FileField(), required=False)


class Album(views.APIView):  # type: ignore[misc]
    parser_classes = (parsers.MultiPartParser,)
    serializer_class = Pictures

    def post(self, request: Any) -> Response:
        data = Pictures(data=request.data)
        data.is_valid(raise_exception=True)
        files = [*data.validated_data.get("others", ())]
        if picture := data.validated_data.get("picture"):
            files.insert(0, picture)
        RECEIVED.extend(files)
        return Response([[file.name, len(file.read())] for file in files])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Server:
    RECEIVED.clear()
    settings.ROOT_URLCONF = "tests.rest.urls"
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": "django_mcp.rest.scopes_of_caller"}
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, path("album/", Album.as_view())])
    server = Server("desk")
    rest_tool(Album, "post", serializer=Pictures, server=server, name="album")
    return server


def call(server: Server, **arguments: Any) -> Any:
    with SyncClient(server, user=User.objects.create(username="ada")) as client:
        return client.call_tool("album", arguments)


def test_view_names_the_arguments_for_which_hosts_send_files(server: Server) -> None:
    with SyncClient(server) as client:
        (tool,) = client.list_tools()

    assert tool["_meta"] == {"openai/fileParams": ["picture", "others"]}


def test_file_of_a_host_reaches_the_view(server: Server, chat: Host) -> None:
    serve(chat, LARGE)

    result = call(server, title="A", picture=of_host(chat, file_name="a.csv"))

    assert result.structured == [["a.csv", len(LARGE)]]
    (file,) = RECEIVED
    assert isinstance(file, TemporaryUploadedFile)
    assert file.closed


def test_several_files_reach_the_view(server: Server, chat: Host) -> None:
    serve(chat, b"abc")

    result = call(server, title="A", others=[of_host(chat), inline(b"ab", "b.txt")])

    assert result.structured == [["file-1.csv", 3], ["b.txt", 2]]
    assert all(file.closed for file in RECEIVED)


def test_empty_list_is_no_file(server: Server) -> None:
    assert call(server, title="A", others=[]).structured == []


def test_refused_file_is_named_by_its_argument(server: Server, host: Host) -> None:
    result = call(server, title="A", others=[inline(b"a", "a.txt"), of_host(host)])

    assert result.text.startswith("others.1: this site accepts no files from")
    assert RECEIVED == []
