"""Forms with files: names and contents stay names and contents, whatever they are."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import path, resolve
from hypothesis import given
from hypothesis import strategies as st
from rest_framework import parsers, serializers, views
from rest_framework.request import Request
from rest_framework.response import Response

from django_mcp import Frame, Server
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi import availability
from django_mcp.openapi.calls import requests
from django_mcp.rest import rest_tool
from django_mcp.runtime.django_types.uploads import Uploads
from django_mcp.testing import SyncClient
from tests.rest import api, urls
from tests.rows import rows
from tests.uploads.files import inline

HOSTILE = [
    "--BoUnDaRyStRiNg",
    f"--{requests.BOUNDARY}",
    "\r\n",
    "\r\n\r\n",
    'Content-Disposition: form-data; name="is_staff"',
    "true",
    "--",
    '"; filename="b.html',
    "\0",
    "%0d%0a",
    "é",
]
INJECTION = (
    'x\r\n--BoUnDaRyStRiNg\r\nContent-Disposition: form-data; name="is_staff"\r\n\r\ntrue\r\n'
    "--BoUnDaRyStRiNg--\r\n"
)

texts = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=5)), max_size=6).map("".join)
names = texts.filter(bool)
contents = st.one_of(texts.map(str.encode), st.binary(max_size=30))
sent_files = st.fixed_dictionaries(
    {
        "name": texts.map(lambda text: f"a{text}b".replace("/", "").replace("\\", "")),
        "content": contents,
    }
)


def parsed(form: requests.FormData) -> Any:
    """Return the request as a view of REST framework reads it."""
    match = resolve("/uploads/", urlconf="tests.rest.urls")
    request = requests.build("post", "/uploads/", match, Frame(), form=form)
    return Request(request, parsers=[parsers.MultiPartParser()])


@given(
    fields=st.dictionaries(names, st.one_of(texts, st.lists(texts, min_size=1, max_size=3))),
    sent=st.dictionaries(names, sent_files, max_size=3),
)
def test_view_reads_what_was_sent_and_nothing_else(
    fields: dict[str, Any], sent: dict[str, dict[str, Any]]
) -> None:
    values = fields | {
        name: Uploads().receive(name, inline(value["content"], value["name"]))
        for name, value in sent.items()
    }

    request = parsed(requests.form_of(values))

    assert dict(request.POST.lists()) == {
        name: value if isinstance(value, list) else [value]
        for name, value in fields.items()
        if name not in sent
    }
    assert {*request.FILES} == {*sent}
    for name, value in sent.items():
        (file,) = request.FILES.getlist(name)
        assert file.read() == value["content"]
        assert file.content_type == "application/octet-stream"
        assert file.name.isprintable()


def test_values_are_texts_as_a_browser_sends_them() -> None:
    values = {"on": True, "off": False, "count": 3, "none": None, "json": {"a": [1]}, "all": [1, 2]}

    request = parsed(requests.form_of(values))

    assert dict(request.data.lists()) == {
        "on": ["true"],
        "off": ["false"],
        "count": ["3"],
        "json": ['{"a": [1]}'],
        "all": ["1", "2"],
    }


@rows(
    ("name", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\docs\\a.txt", "a.txt"),
        ('a"; filename="b.txt', 'a"; filename="b.txt'),
        ("a\r\nX-Header: y", "aX-Header: y"),
    ],
)
def test_file_has_a_plain_name(name: str, expected: str) -> None:
    assert Uploads().receive("file", inline(b"", name)).name == expected


@rows(
    "value",
    [
        {"file_name": ".."},
        {"file_name": "a/"},
        {"file_name": "\r\n"},
        {"mime_type": "text/html\r\nX-Header: y"},
        {"download_url": "data:text/html\r\nX-Header: y;base64,"},
        {"download_url": "data:;base64,*"},
        {"file_id": None},
    ],
)
def test_file_that_is_none_is_rejected(value: dict[str, str]) -> None:
    with pytest.raises(ToolError, match=r"^file"):
        Uploads().receive("file", {**inline(b""), **value})


class Profile(serializers.Serializer):  # type: ignore[misc]
    """What the tool may send; the view itself reads more."""

    name = serializers.CharField()
    picture = serializers.FileField()


class Profiles(views.APIView):  # type: ignore[misc]
    parser_classes = (parsers.MultiPartParser,)

    def post(self, request: Any) -> Response:
        picture = request.FILES["picture"]
        return Response(
            {
                "keys": sorted(request.data),
                "posted": sorted(request._request.POST),
                "name": request.data["name"],
                "picture": [picture.name, picture.content_type, picture.read().decode()],
            }
        )


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    added = path("profiles/", Profiles.as_view())
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, added])
    rest_tool(Profiles, "post", serializer=Profile, server=server, name="profile")


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("part", ["content", "name", "text"])
def test_value_of_an_argument_adds_no_field(
    profiles: None, db: None, server: Server, transport: Any, part: str
) -> None:
    text = INJECTION if part == "text" else "Ada"
    content = INJECTION if part == "content" else "GIF89a"
    name = INJECTION if part == "name" else "ada.gif"
    picture = inline(content.encode(), name[:100], "image/gif")
    user = {"user": User.objects.create(username="ada")} if transport == "memory" else {}

    with SyncClient(server, transport=transport, **user) as client:
        result = client.call_tool("profile", {"name": text, "picture": picture})

    answer = result["structuredContent"]
    assert answer["keys"] == ["name", "picture"]
    assert answer["posted"] == ["name"]
    assert answer["name"] == text
    assert answer["picture"][1:] == ["image/gif", content]


class Place(serializers.Serializer):  # type: ignore[misc]
    city = serializers.CharField()


class Trip(serializers.Serializer):  # type: ignore[misc]
    stops = Place(many=True)
    kind = serializers.ChoiceField(["work", "leisure"])
    ticket = serializers.FileField(required=False)


class TripWithTicket(Trip):
    ticket = serializers.FileField()


def declared(serializer: Any) -> tuple[Any, str]:
    """Return the arguments of a tool, or why there is none."""
    server = Server("api")
    rest_tool(api.Caller, "post", serializer=serializer, server=server, name="trip")
    tool: Any = server.components.find("tool", "trip")
    reasons = availability.missing(server).values()
    return tool and [*tool.input_schema["properties"]], " ".join(reasons)


def test_optional_file_beside_nested_data_is_left_out() -> None:
    assert declared(Trip) == (["stops", "kind"], "")


def test_required_file_beside_nested_data_is_explained() -> None:
    arguments, reason = declared(TripWithTicket)

    assert arguments is None
    assert "takes the file 'ticket' and nested data (stops)" in reason


def test_parser_that_reads_the_body_itself_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    class OwnParser(parsers.BaseParser):  # type: ignore[misc]
        media_type = "multipart/form-data"

    monkeypatch.setattr(api.Uploads, "parser_classes", (OwnParser,))
    server = Server("api")
    rest_tool(api.Uploads, "post", server=server)

    assert not server.components.of_kind("tool")
    (reason,) = availability.missing(server).values()
    assert "tests.rest.api.Uploads.post accepts multipart/form-data" in reason
    assert "add MultiPartParser" in reason
