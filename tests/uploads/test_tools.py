"""Files as arguments of tools: by the URL of a host, and in a data: URL."""

from __future__ import annotations

import logging
import os
import socket
import time
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from django.core.files.uploadedfile import (
    InMemoryUploadedFile,
    TemporaryUploadedFile,
    UploadedFile,
)

from django_mcp import Cancelled, ConfigurationError, FileLimits, Server
from django_mcp.runtime.django_types.uploads import MAX_INLINE_BYTES, Uploads
from django_mcp.testing import SyncClient
from tests.outbound.conftest import NAME, PUBLIC, Host
from tests.spec import spec
from tests.uploads.files import LARGE, inline, of_host, serve

if TYPE_CHECKING:
    from pytest_django import Settings

if TYPE_CHECKING:
    Upload = UploadedFile[Any]
else:
    Upload = UploadedFile  # Django's own is no generic class.

pytestmark = pytest.mark.django_db

TEXT = FileLimits(content_types=["text/*", "application/json"])
SMALL = FileLimits(max_size=1000)


@pytest.fixture
def received() -> list[Upload]:
    """The files that the tools were called with."""
    return []


@pytest.fixture
def server(received: list[Upload]) -> Server:
    server = Server("desk", notify_lists_on_initialize=False)

    def describe(file: Upload) -> dict[str, Any]:
        received.append(file)
        content = file.read()
        return {
            "name": file.name,
            "size": file.size,
            "type": file.content_type,
            "is_whole": len(content) == file.size,
            "start": content[:5].decode(),
            "kind": type(file).__name__,
        }

    @server.tool
    def read(file: Upload) -> dict[str, Any]:
        return describe(file)

    @server.tool
    async def aread(file: Upload) -> dict[str, Any]:
        return describe(file)

    @server.tool
    def read_text(file: Annotated[Upload, TEXT]) -> dict[str, Any]:
        return describe(file)

    @server.tool
    def read_small(file: Annotated[Upload, SMALL]) -> dict[str, Any]:
        return describe(file)

    @server.tool
    def names(files: list[Upload], cover: Upload | None = None) -> list[str | None]:
        received.extend(files)
        return [file.name for file in files] + ([cover.name] if cover else [])

    @server.tool
    async def anames(files: list[Upload]) -> list[str | None]:
        received.extend(files)
        return [file.name for file in files]

    @server.tool
    def fail(file: Upload) -> None:
        received.append(file)
        raise ValueError("the handler fails")

    return server


def call(server: Server, tool: str, **arguments: Any) -> Any:
    with SyncClient(server) as client:
        return client.call_tool(tool, arguments)


# What clients are told.


def test_tool_names_the_arguments_for_which_hosts_send_files(server: Server) -> None:
    with SyncClient(server) as client:
        tools = {tool["name"]: tool for tool in client.list_tools()}

    assert tools["read"]["_meta"] == {"openai/fileParams": ["file"]}
    assert tools["names"]["_meta"] == {"openai/fileParams": ["files", "cover"]}
    listed = tools["read_text"]["inputSchema"]["properties"]["file"]
    assert [*listed["properties"]] == ["download_url", "file_id", "mime_type", "file_name"]
    assert listed["required"] == ["download_url", "file_id"]
    assert listed["properties"]["download_url"]["description"].endswith(
        "YSxi. Only text/*, application/json"
    )
    files = tools["names"]["inputSchema"]["properties"]["files"]
    assert files["items"]["required"] == ["download_url", "file_id"]


def test_meta_of_the_author_overrides_the_names() -> None:
    server = Server("desk")

    @server.tool(meta={"openai/fileParams": []})
    def read(file: Upload) -> None: ...

    with SyncClient(server) as client:
        (tool,) = client.list_tools()
    assert tool["_meta"] == {"openai/fileParams": []}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_size": 0}, "write a number of bytes"),
        ({"max_size": True}, "write a number of bytes"),
        ({"content_types": "text/csv"}, "write a list"),
        ({"content_types": ["csv"]}, "write a list"),
        ({"content_types": ["Text/CSV"]}, "write a list"),
        ({"content_types": ["*/csv"]}, "write a list"),
    ],
)
def test_limits_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        FileLimits(**options)


# Files that arrive.


@pytest.mark.parametrize("tool", ["read", "aread"])
def test_file_of_a_host_is_on_disk_for_the_handler_and_deleted_afterwards(
    server: Server, chat: Host, received: list[Any], tool: str
) -> None:
    serve(chat, LARGE)
    file = of_host(chat, mime_type="text/csv", file_name="../prices.csv")

    result = call(server, tool, file=file)

    assert result.structured == {
        "name": "prices.csv",
        "size": len(LARGE),
        "type": "text/csv",
        "is_whole": True,
        "start": "01234",
        "kind": TemporaryUploadedFile.__name__,
    }
    (kept,) = received
    assert kept.closed
    assert not os.path.exists(kept.temporary_file_path())
    assert chat.requests[0].startswith(b"GET /hook?sig=secret HTTP/1.1\r\n")


@pytest.mark.parametrize("tool", ["read", "aread"])
def test_file_in_a_data_url_is_in_memory_and_closed_afterwards(
    server: Server, received: list[Any], tool: str
) -> None:
    result = call(server, tool, file=inline(b"a,b\n1,2", "p.csv", "text/csv;charset=utf-8"))

    assert result.structured == {
        "name": "p.csv",
        "size": 7,
        "type": "text/csv",
        "is_whole": True,
        "start": "a,b\n1",
        "kind": InMemoryUploadedFile.__name__,
    }
    assert received[0].closed


def test_file_without_name_and_type_has_those_that_are_known(server: Server, chat: Host) -> None:
    serve(chat, b"a", "application/octet-stream")

    unknown = call(server, "read", file=of_host(chat))
    typed = call(server, "read", file=of_host(chat, mime_type="text/csv"))

    assert (unknown.structured["name"], unknown.structured["type"]) == (
        "file-1.bin",
        "application/octet-stream",
    )
    assert (typed.structured["name"], typed.structured["type"]) == ("file-1.csv", "text/csv")


@pytest.mark.parametrize("tool", ["names", "anames"])
def test_several_files_are_received_in_their_order(
    server: Server, received: list[Any], tool: str
) -> None:
    result = call(server, tool, files=[inline(b"a", "a.txt"), inline(b"b", "b.txt")])

    assert result.structured == ["a.txt", "b.txt"]
    assert all(file.closed for file in received)


def test_file_is_closed_after_a_handler_that_fails(server: Server, received: list[Any]) -> None:
    with SyncClient(server, raise_exceptions=False) as client:
        result = client.call_tool("fail", {"file": inline(b"a", "a.txt")})

    assert result.is_error
    assert received[0].closed


def test_first_file_is_closed_where_the_second_is_refused(
    server: Server, chat: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Upload] = []
    keep = Uploads._kept

    def noted(self: Uploads, file: Upload) -> Upload:
        kept.append(file)
        return keep(self, file)

    monkeypatch.setattr(Uploads, "_kept", noted)
    serve(chat, LARGE)

    result = call(server, "names", files=[of_host(chat), inline(b"", "..")])

    assert result.text == "file.1.file_name is no name of a file"
    assert [file.closed for file in kept] == [True]


def test_file_that_arrives_after_the_call_is_closed() -> None:
    with Uploads() as uploads:
        pass
    file = InMemoryUploadedFile(BytesIO(b"a"), None, "a", "text/plain", 1, None)

    with pytest.raises(Cancelled):
        uploads._kept(file)

    assert file.closed


# Files that are refused.


def refused(server: Server, tool: str, file: Any) -> str:
    result = call(server, tool, file=file)
    assert result.is_error
    text: str = result.text
    assert "secret" not in text
    return text


def test_no_host_is_asked_by_default(server: Server, host: Host) -> None:
    text = refused(server, "read", of_host(host))

    assert text == (
        f"file: this site accepts no files from {NAME}, unless its administrator adds the host to "
        "UPLOAD_HOSTS"
    )
    assert (host.lookups, host.connected) == ([], [])


@spec("uploads-01")
@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data",
        "https://evil.example/a",
        f"https://{NAME}.evil.example/a",
        f"https://evil.example/{NAME}",
        f"https://evil{NAME}/a",
        "https://[::1]/a",
    ],
)
def test_other_host_is_not_asked(server: Server, chat: Host, url: str) -> None:
    assert "accepts no files from" in refused(
        server, "read", {**of_host(chat), "download_url": url}
    )
    assert chat.connected == []


@spec("uploads-02")
@pytest.mark.parametrize(
    "url",
    [
        f"http://{NAME}/hook",
        f"ftp://{NAME}/hook",
        "file:///etc/passwd",
        f"https://user:pw@{NAME}/hook",
        f"//{NAME}/hook",
        "/etc/passwd",
        "",
        "https://",
    ],
)
def test_url_without_https_is_refused(server: Server, chat: Host, url: str) -> None:
    text = refused(server, "read", {**of_host(chat), "download_url": url})

    assert text.startswith("file.download_url: The URL must begin with https://")
    assert chat.connected == []


@spec("uploads-03")
@pytest.mark.parametrize("tool", ["read", "aread"])
def test_allowed_host_with_a_private_address_is_not_connected_to(
    server: Server, chat: Host, tool: str
) -> None:
    chat.addresses = [PUBLIC, "10.0.0.1"]

    assert refused(server, tool, of_host(chat)).endswith("The host has no public address")
    assert chat.connected == []


@spec("uploads-04")
def test_name_that_leads_elsewhere_after_the_check_is_not_followed(
    server: Server, chat: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(chat, b"a")
    resolve = socket.getaddrinfo

    def rebound(*arguments: Any, **options: Any) -> Any:
        addresses = resolve(*arguments, **options)
        chat.addresses = ["127.0.0.1"]
        return addresses

    monkeypatch.setattr(socket, "getaddrinfo", rebound)

    assert not call(server, "read", file=of_host(chat)).is_error
    assert "no public address" in refused(server, "read", of_host(chat))
    assert chat.connected == [PUBLIC]


@spec("uploads-05")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed(server: Server, chat: Host, status: int) -> None:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: https://{NAME}/other\r\nContent-Length: 0\r\n\r\n"
    chat.answer = lambda connection, _: connection.sendall(head.encode())

    assert refused(server, "read", of_host(chat)).endswith(f"The host answers {status}")
    assert len(chat.requests) == 1


@spec("uploads-06")
@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("tool", ["read", "read_small"])
def test_file_above_the_limit_is_not_read_to_its_end(
    server: Server, chat: Host, settings: Settings, tool: str, length: bool
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MAX_UPLOAD_SIZE": 200_000}
    serve(chat, LARGE, length=length)
    most = 200_000 if tool == "read" else 1000

    assert refused(server, tool, of_host(chat)) == f"file has more than {most} bytes"


def test_files_of_a_list_have_the_limit_together(
    server: Server, chat: Host, settings: Settings
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "MAX_UPLOAD_SIZE": 10}
    serve(chat, b"123456")

    two = [of_host(chat), of_host(chat)]

    assert call(server, "names", files=two[:1]).structured == ["file-1.csv"]
    assert call(server, "names", files=two).text == "file.1 has more than 4 bytes"


@spec("uploads-07")
def test_slow_host_is_left_at_the_limit(server: Server, chat: Host, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "UPLOAD_TIMEOUT": 0.3}

    def drip(connection: Any, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(600):
            connection.sendall(b"a")
            time.sleep(0.05)

    chat.answer = drip
    before = time.monotonic()

    assert refused(server, "read", of_host(chat)).endswith("The host does not answer in time")
    assert time.monotonic() - before < 15


def test_host_that_ends_early_is_an_error(server: Server, chat: Host) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort"
    chat.answer = lambda connection, _: connection.sendall(answer)

    assert refused(server, "read", of_host(chat)).startswith("file.download_url: The")


@spec("uploads-08")
@pytest.mark.parametrize(
    ("claimed", "found"),
    [
        ("image/png", "text/csv"),
        ("text/csv", "image/png"),
        (None, "image/svg+xml"),
        (None, "application/octet-stream"),
    ],
)
def test_file_of_another_type_is_refused(
    server: Server, chat: Host, claimed: str | None, found: str
) -> None:
    serve(chat, b"a", found)
    file = of_host(chat, **({} if claimed is None else {"mime_type": claimed}))

    text = refused(server, "read_text", file)

    assert "is not accepted, but text/*" in text or "is not known" in text


@pytest.mark.parametrize("media_type", ["text/html", "application/json"])
def test_file_of_an_accepted_type_arrives(server: Server, chat: Host, media_type: str) -> None:
    serve(chat, b"{}", f"{media_type}; charset=utf-8")

    assert call(server, "read_text", file=of_host(chat)).structured["type"] == media_type


@spec("uploads-09")
@pytest.mark.parametrize("tool", ["read", "aread"])
def test_data_url_above_the_bound_is_rejected(server: Server, tool: str) -> None:
    assert "file" in refused(server, tool, inline(b"x" * (MAX_INLINE_BYTES + 300)))
    just_above = refused(server, tool, inline(b"x" * (MAX_INLINE_BYTES + 3)))
    assert just_above == (f"file has {MAX_INLINE_BYTES + 3} bytes, at most {MAX_INLINE_BYTES} fit")
    assert not call(server, tool, file=inline(b"x" * MAX_INLINE_BYTES)).is_error


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:text/plain,hello", "is not data:TYPE;base64,"),
        ("data:text/plain;base64,%", "is not base64"),
        ("data:" + ";" * 100_000 + "base64,YQ==", "is not data:TYPE;base64,"),
        ("data:text/plain;base64,YQ==\n", "is not base64"),
        ("data:text;base64,YQ==", "is not a media type"),
    ],
)
def test_data_url_that_is_none_is_rejected(server: Server, url: str, words: str) -> None:
    assert words in refused(server, "read", {**inline(b""), "download_url": url})


@pytest.mark.parametrize(
    "file",
    ["a.txt", {}, {"download_url": "https://a"}, {**inline(b""), "more": "x"}, {"file_id": 1}],
)
def test_value_that_is_no_file_is_invalid(server: Server, file: Any) -> None:
    assert refused(server, "read", file).startswith("Invalid arguments: file")


def test_signed_url_is_not_logged(
    server: Server, chat: Host, caplog: pytest.LogCaptureFixture, received: list[Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    serve(chat, b"a")

    call(server, "read", file=of_host(chat))
    with SyncClient(server, raise_exceptions=False) as client:
        client.call_tool("fail", {"file": of_host(chat)})
    chat.addresses = ["127.0.0.1"]
    call(server, "read", file=of_host(chat))

    assert len(received) == 2
    assert "secret" not in caplog.text


def test_subdomains_are_hosts_where_the_name_begins_with_a_dot(
    server: Server, host: Host, settings: Settings
) -> None:
    serve(host, b"a")
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "UPLOAD_HOSTS": [".EXAMPLE"]}

    assert not call(server, "read", file=of_host(host)).is_error
    other = {**of_host(host), "download_url": "https://notexample/a"}
    assert "accepts no files" in refused(server, "read", other)
