"""HTTP details that a client library hides: statuses, headers, media types, bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

from django_mcp import ConfigurationError, Frame, McpError, Server, registry, routing
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InternalError, MissingClientCapability
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.testing.asgi import Exchange, http_scope, perform
from django_mcp.transports import site
from tests.constants import SetConstants
from tests.memory_stores import Configure
from tests.spec import spec
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import (
    CAPABILITIES,
    REPORTING,
    SESSIONS,
    STATELESS,
    VERSION,
    Message,
    encoded,
)

if TYPE_CHECKING:
    from pytest_django import Settings

TIMEOUT = SECONDS
ALL_VERSIONS = [*SESSIONS, STATELESS]


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @server.tool
    def refuse(code: int | None = None) -> str:
        raise McpError("No", code=code)

    @server.tool
    def internal() -> str:
        raise InternalError

    @server.tool
    def demanding() -> str:
        raise MissingClientCapability.of({"sampling": {}})

    @server.resource("shop://hours")
    def hours() -> str:
        return "always"

    @server.prompt
    def greet() -> str:
        return "hello"

    return server


async def opened(
    version: str, server: Server | None = None, headers: Mapping[str, str] | None = None
) -> AsgiClient:
    """A client of the version, with an open session if the version has sessions."""
    wire = AsgiClient(server or shop(), version, headers=headers, meta=REPORTING)
    if version != STATELESS:
        await wire.initialize()
    return wire


def without_id(message: Message) -> Message:
    """The same as a notification."""
    return {name: value for name, value in message.items() if name != "id"}


# Responses.


@spec("T-HTTP-17", "2026/HTTP-06")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_call_without_notifications_is_answered_as_json(version: str) -> None:
    wire = await opened(version)

    reply = await wire.post(wire.call("add", a=1, b=2))

    assert reply.status == 200
    assert reply.media_type == "application/json"
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.json()["result"]["content"][0]["text"] == "3"


@spec("T-HTTP-14", "2026/HTTP-05")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_notification_is_accepted_with_an_empty_body(version: str) -> None:
    wire = await opened(version)

    reply = await wire.post(jsonrpc.notification("notifications/cancelled", {"requestId": 99}))

    assert (reply.status, reply.body) == (202, b"")


@spec("RPC-13", "2026/JR-08")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_unknown_notification_is_accepted(version: str) -> None:
    wire = await opened(version)

    reply = await wire.post(without_id(wire.request("notifications/unheard_of")))

    assert (reply.status, reply.body) == (202, b"")


STATELESS_ERRORS = [
    ("unknown method", {"method": "tools/forget", "params": {}}, 404, -32601),
    ("unknown tool", {"method": "tools/call", "params": {"name": "forget"}}, 400, -32602),
    ("no name", {"method": "tools/call", "params": {"arguments": {}}}, 400, -32602),
    ("unknown address", {"method": "resources/read", "params": {"uri": "x://y"}}, 400, -32602),
    ("unknown prompt", {"method": "prompts/get", "params": {"name": "forget"}}, 400, -32602),
    ("bad cursor", {"method": "tools/list", "params": {"cursor": "x"}}, 400, -32602),
    ("internal", {"method": "tools/call", "params": {"name": "internal"}}, 200, -32603),
    ("capability", {"method": "tools/call", "params": {"name": "demanding"}}, 400, -32021),
    (
        "own code",
        {"method": "tools/call", "params": {"name": "refuse", "arguments": {"code": 7}}},
        200,
        7,
    ),
]


@spec("2026/ERR-05", "2026/ERR-06", "2026/HTTP-14")
@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [row[1:] for row in STATELESS_ERRORS],
    ids=[row[0] for row in STATELESS_ERRORS],
)
async def test_stateless_error_has_its_own_http_status(
    request_: dict[str, Any], status: int, code: int
) -> None:
    wire = await opened(STATELESS)

    reply = await wire.post(wire.request(request_["method"], request_["params"]))

    assert (reply.status, reply.json()["error"]["code"]) == (status, code)
    assert (await wire.post(wire.call("add", a=1))).status == 200


@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize(
    "request_",
    # In a session, the model reads that the client lacks a capability.
    [row[1] for row in STATELESS_ERRORS if row[0] != "capability"],
    ids=[row[0] for row in STATELESS_ERRORS if row[0] != "capability"],
)
async def test_session_error_is_sent_with_status_200(
    version: str, request_: dict[str, Any]
) -> None:
    wire = await opened(version)

    reply = await wire.post(wire.request(request_["method"], request_["params"]))

    assert reply.status == 200
    assert "error" in reply.json()


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_tool_error_is_sent_as_a_result(version: str) -> None:
    wire = await opened(version)

    reply = await wire.post(wire.call("add", a="one"))

    assert (reply.status, reply.json()["result"]["isError"]) == (200, True)


@spec("2026/HTTP-19")
@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"", -32700), (b"[]", -32600), (b"1", -32600), (b'{"id": 7}', -32600)],
)
async def test_malformed_message_is_a_bad_request(version: str, body: bytes, code: int) -> None:
    wire = await opened(version)

    reply = await wire.post(None, body=body)

    assert (reply.status, reply.json()["error"]["code"]) == (400, code)
    assert reply.media_type == "application/json"


# Sessions.


@spec("T-HTTP-60", "T-HTTP-61", "T-HTTP-62", "SEC-04", "SEC-05")
@pytest.mark.parametrize("version", SESSIONS)
async def test_initialize_response_carries_a_unique_session_id(version: str) -> None:
    wire = AsgiClient(shop(), version, meta=REPORTING)

    replies = [await wire.post(wire.initialize_request()) for _ in range(2)]
    wire.session = replies[0].headers["mcp-session-id"]
    later = await wire.post(wire.request("ping"))

    ids = [reply.headers["mcp-session-id"] for reply in replies]
    assert ids[0] != ids[1]
    assert all(len(each) >= 32 and each.isascii() and each.isprintable() for each in ids)
    assert "mcp-session-id" not in later.headers


@spec("2026/HTTP-16")
async def test_stateless_request_ignores_a_session_id_and_creates_none() -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply = await wire.post(wire.call("add", a=1), {"mcp-session-id": "anything"})

    assert reply.status == 200
    assert "mcp-session-id" not in reply.headers


async def test_rejected_initialize_creates_no_session() -> None:
    wire = AsgiClient(shop(), "2025-11-25", meta=REPORTING)

    reply = await wire.post(jsonrpc.request(1, "initialize", {}))

    assert (reply.status, reply.json()["error"]["code"]) == (200, -32602)
    assert "mcp-session-id" not in reply.headers


async def test_initialize_in_an_open_session_is_rejected() -> None:
    wire = await opened("2025-11-25")

    reply = await wire.post(wire.initialize_request())

    assert (reply.status, reply.json()["error"]["code"]) == (400, -32600)


@spec("T-HTTP-15", "T-HTTP-63", "T-HTTP-64", "T-HTTP-72")
@pytest.mark.parametrize("version", SESSIONS)
async def test_messages_that_need_a_session_are_rejected_without_one(version: str) -> None:
    wire = AsgiClient(shop(), version, meta=REPORTING)

    replies = [
        await wire.post(wire.request("tools/list")),
        await wire.post(jsonrpc.notification("notifications/initialized")),
        await wire.post(jsonrpc.result(1, {})),
        await wire.perform("DELETE"),
    ]

    assert [reply.status for reply in replies] == [400] * 4


@spec("T-HTTP-66")
@pytest.mark.parametrize("version", SESSIONS)
async def test_unknown_session_is_not_found(version: str) -> None:
    wire = AsgiClient(shop(), version, meta=REPORTING)
    wire.session = "unheard-of"

    replies = [
        await wire.post(wire.request("tools/list")),
        await wire.post(jsonrpc.notification("notifications/initialized")),
        await wire.perform("DELETE"),
    ]

    assert [reply.status for reply in replies] == [404] * 3


@spec("T-HTTP-66")
@pytest.mark.parametrize("version", SESSIONS)
async def test_deleted_session_is_not_found(version: str) -> None:
    wire = await opened(version)

    ended = await wire.perform("DELETE")
    again = await wire.perform("DELETE")
    reply = await wire.post(wire.request("tools/list"))

    assert ended.status in (200, 204)
    assert (again.status, reply.status) == (404, 404)


class NameHeaderAuthentication:
    """Trusts the name of the caller."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        name = dict(scope["headers"]).get(b"x-name", b"").decode()
        if name == "wrong":
            return Challenge(status=403, headers=((b"www-authenticate", b"Name"),), message="Go")
        return Principal(scheme="named", subject=name) if name else None


@spec("ELIC-23", "ELIC-25", "SEC-02", "SEC-03", "SEC-06")
async def test_session_of_another_principal_is_not_found() -> None:
    server = Server("shop", authenticators=[NameHeaderAuthentication()])
    wire = await opened("2025-11-25", server, {"x-name": "ada"})

    mine = await wire.post(wire.request("ping"))
    hers = await wire.post(wire.request("ping"), {"x-name": "eve"})
    ended = await wire.perform("DELETE", {"x-name": "eve"})

    assert (mine.status, hers.status, ended.status) == (200, 404, 404)
    assert (await wire.post(wire.request("ping"))).status == 200


async def test_session_of_another_server_is_not_found() -> None:
    one = await opened("2025-11-25", Server("one"))
    other = AsgiClient(Server("other"), "2025-11-25")

    other.session = one.session

    assert (await other.post(other.request("ping"))).status == 404


async def test_session_is_rejected_while_all_of_its_caller_are_in_use(
    set_constants: SetConstants,
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=2)
    server = shop()
    for _ in range(2):
        await opened("2025-11-25", server)
    wire = AsgiClient(server, "2025-11-25", meta=REPORTING)

    assert (await wire.post(wire.initialize_request())).status == 429


# Version headers.


@spec("T-HTTP-70", "T-HTTP-74")
@pytest.mark.parametrize("version", SESSIONS)
async def test_version_header_is_optional_in_a_session(version: str) -> None:
    wire = await opened(version)

    bare = await wire.post(wire.request("ping"))
    repeated = await wire.post(wire.request("ping"), {"mcp-protocol-version": version})

    assert (bare.status, repeated.status) == (200, 200)


@spec("LIFE-12", "LIFE-13", "T-HTTP-71")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
async def test_session_keeps_its_version_if_the_header_names_another_one(version: str) -> None:
    wire = await opened("2025-11-25")

    replies = [
        await wire.post(wire.request("tools/list"), {"mcp-protocol-version": named})
        for named in (version, "2025-11-25")
    ]

    assert [reply.status for reply in replies] == [200, 200]
    assert replies[0].json()["result"] == replies[1].json()["result"]
    assert any("outputSchema" in tool for tool in replies[0].json()["result"]["tools"])


@pytest.mark.parametrize("version", ["1999-01-01", "2030-01-01", "latest", ""])
async def test_unsupported_version_in_a_session_is_rejected_with_its_version(version: str) -> None:
    wire = await opened("2025-11-25")

    reply = await wire.post(wire.request("ping"), {"mcp-protocol-version": version})

    assert reply.status == 400
    error = reply.json()["error"]
    assert (error["code"], "2025-11-25" in error["message"]) == (-32600, True)


@spec("2026/HTTP-12", "2026/HTTP-13", "2026/HDR-01", "2026/HDR-02")
@pytest.mark.parametrize(
    "changes",
    [
        {"mcp-protocol-version": None},
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-method": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": "TOOLS/CALL"},
        {"mcp-name": None},
        {"mcp-name": "subtract"},
        {"mcp-name": "=?base64?YWRk"},
        {"mcp-name": "=?base64?!!?="},
    ],
)
async def test_headers_that_do_not_match_the_body_are_rejected(
    changes: dict[str, str | None],
) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply = await wire.post(wire.call("add", a=1), changes)

    assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)
    assert reply.json()["id"] == 1


@spec("2026/HDR-09")
async def test_duplicate_header_is_rejected() -> None:
    wire = AsgiClient(shop(), meta=REPORTING)
    message = wire.call("add", a=1)
    scope = wire.scope(message)
    scope["headers"].append((b"mcp-name", b"add"))

    reply = await perform(wire.application, scope, encoded(message))

    assert (reply.status, reply.json()["error"]["code"]) == (400, -32020)


@spec("2026/HDR-05", "2026/HDR-06")
@pytest.mark.parametrize("name", [" add ", "\tadd", "=?base64?YWRk?="])
async def test_padded_or_encoded_name_header_is_accepted(name: str) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    assert (await wire.post(wire.call("add", a=1), {"mcp-name": name})).status == 200


@spec("2026/META-01", "2026/HTTP-13")
async def test_errors_are_reported_in_order_of_precedence() -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    async def code(meta: dict[str, Any], changes: dict[str, str], method: str) -> int:
        message = jsonrpc.request(1, method, {"_meta": meta})
        reply = await wire.post(message, changes)
        assert reply.status in (400, 404)
        found: int = reply.json()["error"]["code"]
        return found

    good = {VERSION: STATELESS, CAPABILITIES: {}}
    unserved = {VERSION: "v999", CAPABILITIES: {}}
    other = {"mcp-protocol-version": "v999"}
    assert await code({}, {}, "tools/forget") == -32602
    assert await code({VERSION: STATELESS}, other, "tools/forget") == -32602
    assert await code(good, other, "tools/forget") == -32020
    assert await code(unserved, {}, "tools/forget") == -32020
    assert await code(unserved, other, "tools/forget") == -32022
    assert await code(good, {}, "tools/forget") == -32601
    assert await code(good, {}, "initialize") == -32601


# Methods and media types.


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD"])
async def test_unsupported_http_method_gets_405(method: str) -> None:
    reply = await AsgiClient(shop(), meta=REPORTING).perform(method)

    assert reply.status == 405
    assert "POST" in reply.headers["allow"]
    # The response to HEAD has the length of a content which it does not have (RFC 9110, 9.3.2).
    assert int(reply.headers["content-length"]) > 0
    assert bool(reply.body) == (method != "HEAD")


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "text/json"]
)
async def test_content_type_other_than_json_gets_415(content_type: str | None) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply = await wire.post(wire.call("add", a=1), {"content-type": content_type})

    assert reply.status == 415


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_content_type_with_charset_or_capitals_is_accepted(content_type: str) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply = await wire.post(wire.call("add", a=1), {"content-type": content_type})

    assert reply.status == 200


@spec("T-HTTP-11")
@pytest.mark.parametrize("accept", ["text/html", "text/event-stream", "image/*"])
async def test_accept_header_without_json_gets_406(accept: str) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    assert (await wire.post(wire.call("add", a=1), {"accept": accept})).status == 406


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/json", "application/json;q=0.9, text/event-stream"]
)
async def test_accept_header_with_json_is_answered(accept: str | None) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    assert (await wire.post(wire.call("add", a=1), {"accept": accept})).status == 200


@spec("T-HTTP-11")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_client_that_accepts_only_json_receives_no_notifications(version: str) -> None:
    server = Server("shop")

    @server.tool
    def talk(frame: Frame) -> str:
        frame.client.progress(1)
        frame.client.log("info", "hello")
        return "done"

    wire = await opened(version, server)
    reply = await wire.post(wire.call("talk"), {"accept": "application/json"})

    assert reply.media_type == "application/json"
    assert reply.json()["result"]["content"][0]["text"] == "done"


# Hosts, origins and authentication.


@spec("T-HTTP-02", "T-HTTP-03", "T-HTTP-04", "2026/HTTP-02")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://testserver.evil", "x"])
async def test_foreign_origin_is_rejected(origin: str) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    reply = await wire.post(wire.call("add", a=1), {"origin": origin})

    assert reply.status == 403
    assert reply.json()["error"]["code"] == -32600
    assert "id" not in reply.json()


@spec("2026/HTTP-03")
@pytest.mark.parametrize("origin", [None, "http://testserver", "https://testserver:8443"])
async def test_own_or_missing_origin_is_accepted(origin: str | None) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    assert (await wire.post(wire.call("add", a=1), {"origin": origin})).status == 200


@pytest.mark.parametrize("hosts", [["*"], ["shop.example"]], ids=str)
@pytest.mark.parametrize(
    ("scheme", "status"), [("https", 200), ("http", 403)], ids=["https", "http"]
)
async def test_own_origin_behind_a_proxy_is_the_one_that_browsers_have(
    settings: Settings, hosts: list[str], scheme: str, status: int
) -> None:
    settings.ALLOWED_HOSTS = [*hosts, "inner.example"]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.USE_X_FORWARDED_HOST = True
    wire = AsgiClient(shop(), meta=REPORTING)
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "shop.example"}

    reply = await wire.post(
        wire.call("add", a=1),
        {"host": "inner.example", **forwarded, "origin": f"{scheme}://shop.example"},
    )

    assert reply.status == status


async def test_configured_origin_is_accepted(configure: Configure) -> None:
    configure(ALLOWED_ORIGINS=["https://app.example"])
    wire = AsgiClient(shop(), meta=REPORTING)

    named = await wire.post(wire.call("add", a=1), {"origin": "https://app.example"})
    other = await wire.post(wire.call("add", a=1), {"origin": "https://app.example:444"})

    assert (named.status, other.status) == (200, 403)


@spec("T-HTTP-02", "2026/HTTP-02")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_unknown_host_is_rejected(method: str) -> None:
    reply = await AsgiClient(shop(), "2025-11-25", meta=REPORTING).perform(
        method, {"host": "evil.example"}
    )

    assert reply.status == 403


async def test_unauthenticated_request_is_rejected_with_the_challenge() -> None:
    wire = AsgiClient(
        Server("shop", authenticators=[NameHeaderAuthentication()], capabilities={"tools": {}}),
        meta=REPORTING,
    )

    stranger = await wire.post(wire.request("tools/list"))
    impostor = await wire.post(wire.request("tools/list"), {"x-name": "wrong"})
    friend = await wire.post(wire.request("tools/list"), {"x-name": "ada"})

    assert (stranger.status, impostor.status, friend.status) == (401, 403, 200)
    assert impostor.headers["www-authenticate"] == "Name"
    assert impostor.json()["error"]["message"] == "Go"


async def test_authenticators_are_tried_in_order() -> None:
    server = Server(
        "shop",
        authenticators=[
            NameHeaderAuthentication(),
            "django_mcp.auth.anonymous.AnonymousAuthentication",
        ],
    )
    seen: list[str] = []

    @server.tool
    def who(frame: Frame) -> None:
        assert frame.auth is not None
        seen.append(frame.auth.key)

    wire = AsgiClient(server, meta=REPORTING)
    await wire.post(wire.call("who"), {"x-name": "ada"})
    await wire.post(wire.call("who"))

    assert seen == ["named:ada", "public:"]


@spec("T-HTTP-06", "2026/HTTP-04")
async def test_endpoint_without_authenticators_raises_improperly_configured(
    configure: Configure,
) -> None:
    configure(AUTHENTICATORS=None)

    with pytest.raises(ImproperlyConfigured, match="names no authenticator"):
        routing.endpoint(Server("shop"))


# Bytes.


def test_endpoint_of_the_name_of_a_server_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="give the Server itself"):
        routing.endpoint("shop")  # type: ignore[arg-type]


async def test_body_split_into_chunks_is_accepted() -> None:
    wire = AsgiClient(shop(), meta=REPORTING)
    message = wire.request("tools/call", {"name": "add", "arguments": {"a": 1}, "é": "€"})
    data = encoded(message)

    for size in (1, 7, len(data) - 1):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        reply = await wire.post(message, body=[*pieces, b""])
        assert reply.status == 200


async def test_body_of_exactly_the_maximum_size_is_accepted(configure: Configure) -> None:
    wire = AsgiClient(shop(), meta=REPORTING)
    message = wire.call("add", a=1)
    data = encoded(message)
    configure(MAX_BODY_SIZE=len(data))

    whole = await wire.post(message)
    in_pieces = await wire.post(message, body=[data[:9], data[9:]])
    too_long = await wire.post(message, body=data + b" ")

    assert (whole.status, in_pieces.status, too_long.status) == (200, 200, 413)
    assert "id" not in too_long.json()
    assert (await wire.post(message)).status == 200


async def test_oversized_body_is_not_read_to_the_end(configure: Configure) -> None:
    configure(MAX_BODY_SIZE=100)
    wire = AsgiClient(shop(), meta=REPORTING)
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 60
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await wire.application(wire.scope(None), receive, send)

    assert sent[0]["status"] == 413
    assert read == 120


async def test_disconnect_before_the_body_is_complete_starts_no_response() -> None:
    wire = AsgiClient(shop(), meta=REPORTING)

    async with Exchange(wire.application, wire.scope(None), None) as exchange:
        exchange.send(b"{", more=True)
        exchange.disconnect()
        await exchange.wait_closed()
        assert not exchange.has_started


# Streams.


class SlowServer:
    """A server whose only tool sends a log message, and waits until the test releases it."""

    def __init__(self) -> None:
        self.server = Server("slow")
        self.server.tool(name="work")(self.work)
        self.server.tool(name="remembered")(self.remembered)
        self.began = asyncio.Event()
        self.may_report = asyncio.Event()
        self.proceed = asyncio.Event()
        self.ended = asyncio.Event()
        self.was_cancelled = False

    async def work(self, frame: Frame) -> tuple[str, Frame]:
        self.began.set()
        try:
            await self.may_report.wait()
            await frame.client.aprogress(1)
            await self.proceed.wait()
            await frame.client.aprogress(2)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        finally:
            self.ended.set()
        return "done", frame.assign("worked", True)

    async def remembered(self, frame: Frame) -> str:
        return repr(dict(frame.assigns))

    async def until(self, event: asyncio.Event) -> None:
        async with asyncio.timeout(TIMEOUT):
            await event.wait()


@spec("T-HTTP-17", "T-HTTP-22", "2026/HTTP-06", "2026/HTTP-09", "2026/HTTP-10")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_stream_is_opened_by_the_first_notification(version: str) -> None:
    slow = SlowServer()
    wire = await opened(version, slow.server)

    async with wire.open_post(wire.call("work")) as exchange:
        await slow.until(slow.began)
        assert not exchange.has_started

        slow.may_report.set()
        assert await exchange.status() == 200
        headers = await exchange.headers()
        event = await exchange.event()
        while event is not None and not event.data:  # A priming event.
            event = await exchange.event()
        assert event is not None
        assert jsonrpc.decode(event.data)["params"]["progress"] == 1

        slow.proceed.set()
        rest = [jsonrpc.decode(each.data) async for each in exchange.events()]

    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-cache, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert [each.get("method") for each in rest] == ["notifications/progress", None]
    assert rest[-1]["result"]["content"][0]["text"] == "done"


@spec("2026/HTTP-17")
async def test_stateless_events_have_no_ids() -> None:
    slow = SlowServer()
    slow.may_report.set()
    slow.proceed.set()
    wire = AsgiClient(slow.server, meta=REPORTING)

    reply = await wire.post(wire.call("work"))

    assert [line for line in reply.body.split(b"\n") if line[:3] not in (b"dat", b"")] == []


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_error_after_the_first_notification_ends_the_stream(version: str) -> None:
    server = Server("shop")

    @server.tool
    async def stumble(frame: Frame) -> str:
        await frame.client.aprogress(1)
        raise McpError("No")

    wire = await opened(version, server)
    reply = await wire.post(wire.call("stumble"))

    assert (reply.status, reply.media_type) == (200, "text/event-stream")
    assert jsonrpc.decode(reply.events()[-1].data)["error"]["message"] == "No"


@spec("PROG-11", "2026/PRG-04")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_async_handler_waits_for_a_slow_client(version: str) -> None:
    server = Server("shop")
    sent_numbers: list[int] = []
    ended = asyncio.Event()

    @server.tool
    async def talk(frame: Frame) -> str:
        for number in range(20):
            await frame.client.aprogress(number)
            sent_numbers.append(number)
        ended.set()
        return "done"

    wire = await opened(version, server)

    async with wire.open_post(wire.call("talk")) as exchange:
        exchange.stop_reading()
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(sent_numbers) < 5
        exchange.resume_reading()
        numbers = [
            jsonrpc.decode(event.data)["params"]["progress"]
            async for event in exchange.events()
            if b"progress" in event.data.encode()
        ]

    assert numbers == list(range(20))


@spec("PROG-11")
@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_sync_handler_waits_for_the_event_loop(version: str) -> None:
    server = Server("shop")
    sent_numbers: list[int] = []

    @server.tool
    def talk(frame: Frame) -> str:
        for number in range(5000):
            frame.client.progress(number)
            sent_numbers.append(number)
        return "done"

    wire = await opened(version, server)

    async with wire.open_post(wire.call("talk")) as exchange:
        exchange.stop_reading()
        async with asyncio.timeout(TIMEOUT):
            while not sent_numbers:
                await asyncio.sleep(0)
        # The thread waits for the event loop, which is blocked: it bounds what is kept.
        before = -1
        while before < len(sent_numbers):
            before = len(sent_numbers)
            time.sleep(0.1)
        assert len(sent_numbers) < 5000
        exchange.resume_reading()
        body = await exchange.body()

    assert body.count(b"notifications/progress") == 5000


# Disconnects.


async def test_stateless_request_is_cancelled_when_the_client_disconnects() -> None:
    slow = SlowServer()
    wire = AsgiClient(slow.server, meta=REPORTING)

    async with wire.open_post(wire.call("work")) as exchange:
        await slow.until(slow.began)
        exchange.disconnect()
        await slow.until(slow.ended)
        await exchange.wait_closed()
        assert not exchange.has_started

    assert slow.was_cancelled


@spec("2026/HTTP-11")
async def test_stateless_stream_is_cancelled_when_the_client_disconnects() -> None:
    slow = SlowServer()
    slow.may_report.set()
    wire = AsgiClient(slow.server, meta=REPORTING)

    async with wire.open_post(wire.call("work")) as exchange:
        assert await exchange.event() is not None
        exchange.disconnect()
        await slow.until(slow.ended)
        await exchange.wait_closed()
        with pytest.raises(ConnectionError, match="without completing its response"):
            await exchange.read()

    assert slow.was_cancelled


async def test_request_is_cancelled_when_the_server_cancels_the_connection() -> None:
    slow = SlowServer()
    wire = AsgiClient(slow.server, meta=REPORTING)

    async with wire.open_post(wire.call("work")):
        await slow.until(slow.began)

    assert slow.was_cancelled


@spec("T-HTTP-28")
@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize("by_the_server", [False, True])
async def test_session_call_continues_after_a_disconnect(version: str, by_the_server: bool) -> None:
    slow = SlowServer()
    wire = await opened(version, slow.server)

    async with wire.open_post(wire.call("work")) as exchange:
        await slow.until(slow.began)
        if not by_the_server:
            exchange.disconnect()
            slow.may_report.set()
            slow.proceed.set()
            await slow.until(slow.ended)
            await exchange.wait_closed()
    slow.may_report.set()
    slow.proceed.set()
    await slow.until(slow.ended)

    assert not slow.was_cancelled
    async with asyncio.timeout(TIMEOUT):
        while True:
            reply = await wire.post(wire.call("remembered"))
            text = reply.json()["result"]["content"][0]["text"]
            if text != "{}":
                break
            await asyncio.sleep(0)
    assert text == "{'worked': True}"


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_error_raised_by_send_does_not_block_the_handler(version: str) -> None:
    slow = SlowServer()
    slow.may_report.set()
    slow.proceed.set()
    wire = await opened(version, slow.server)
    message = wire.call("work")

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": encoded(message), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        raise OSError("The client has gone")

    with suppress(OSError):  # Allowed by the ASGI specification.
        await wire.application(wire.scope(message), receive, send)
    await slow.until(slow.ended)


# Routing.


def mounted() -> tuple[Any, list[str]]:
    """A site with the default server, and the paths that Django received."""
    reached: list[str] = []

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope.get("path", scope["type"]))
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 418, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return routing.mount(pages), reached


@spec("2026/HTTP-01")
@pytest.mark.parametrize(
    ("path", "status"),
    [("/mcp", 415), ("/mcp/", 415), ("/", 418), ("/mcp/x", 418), ("/admin/", 418), ("/MCP", 418)],
)
async def test_other_paths_are_passed_to_django(path: str, status: int) -> None:
    application, reached = mounted()

    reply = await perform(application, http_scope("POST", path))

    assert reply.status == status
    assert reached == ([path] if status == 418 else [])


async def test_scopes_other_than_http_are_passed_to_django() -> None:
    application, reached = mounted()

    await application({"type": "websocket", "path": "/mcp"}, None, None)

    assert reached == ["/mcp"]


async def test_lifespan_events_are_acknowledged() -> None:
    application, reached = mounted()

    sent = await lifespan(application)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert reached == ["lifespan"]


async def lifespan(application: Any) -> list[str]:
    """What is answered to the start and the end of a process."""
    incoming = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": next(incoming)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    return sent


async def test_failed_start_of_the_wrapped_application_is_passed_on() -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    assert await lifespan(routing.mount(fails)) == ["lifespan.startup.failed"]


async def test_wrapped_application_without_lifespan_is_not_required_to_have_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complete = ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert await lifespan(routing.mount(get_asgi_application())) == complete
    assert caplog.records == []


async def test_wrapped_application_is_stopped_when_a_server_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            seen.append((await receive())["type"])
            await send({"type": f"{seen[-1]}.complete"})

    async def fail(_: Server) -> None:
        raise RuntimeError("no start")

    monkeypatch.setattr(site, "start", fail)
    assert await lifespan(routing.mount(wrapped)) == ["lifespan.startup.failed"]
    assert seen == ["lifespan.startup", "lifespan.shutdown"]


async def test_wrapped_application_that_breaks_is_logged_and_the_process_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        raise RuntimeError("no end")

    complete = ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert await lifespan(routing.mount(breaks)) == complete
    assert "lifespan of the wrapped application failed" in caplog.text


async def test_url_patterns_resolve_to_every_endpoint() -> None:
    patterns = routing.urlpatterns()

    paths = [server.path.strip("/") for server in registry.servers()]
    for path, pattern in zip(paths, patterns, strict=False):
        assert pattern.resolve(path) is not None
        assert pattern.resolve(f"{path}/") is not None
        assert pattern.resolve(f"{path}/x") is None


# Internal failures.


class UnreachableSessionStore(MemorySessionStore):
    """A store whose backend is unreachable."""

    async def load(self, session_id: str) -> Session | None:
        raise ConnectionRefusedError("the password is xyzzy")


class FailingAuthentication:
    """An authenticator whose backend is unreachable."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        raise RuntimeError("the password is xyzzy")


async def test_unreachable_store_gets_status_503_without_details(
    configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await opened("2025-11-25")
    configure(STORES={"sessions": {"BACKEND": f"{__name__}.UnreachableSessionStore"}})

    reply = await wire.post(wire.request("ping"))

    assert (reply.status, reply.json()["error"]["code"]) == (503, -32603)
    assert int(reply.headers["retry-after"]) > 0
    assert b"xyzzy" not in reply.body
    assert "xyzzy" in caplog.text


async def test_failing_authenticator_gets_status_500_without_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = AsgiClient(Server("shop", authenticators=[FailingAuthentication()]), meta=REPORTING)

    reply = await wire.post(wire.request("tools/list"))

    assert (reply.status, reply.json()["error"]["code"]) == (500, -32603)
    assert b"xyzzy" not in reply.body
    assert "xyzzy" in caplog.text


@pytest.mark.parametrize("is_bare", [True, False])
async def test_transport_that_a_handler_returns_shows_no_header(is_bare: bool) -> None:
    server = Server("shop")

    @server.tool
    def show(frame: Frame) -> Any:
        return frame.transport if is_bare else {"transport": frame.transport}

    wire = AsgiClient(
        server,
        headers={"authorization": "Bearer secret", "cookie": "sessionid=secret"},
        meta=REPORTING,
    )
    reply = await wire.post(wire.call("show"))

    assert b"secret" not in reply.body
    assert reply.json()["error"]["code"] == -32603
