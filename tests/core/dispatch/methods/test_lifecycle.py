"""Initialization and discovery: the negotiation of the revision, and the server's description."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.protocol import jsonrpc
from django_mcp.testing import Client
from django_mcp.testing.plugin import TRANSPORTS, ClientFor
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
ALL = [*SESSIONS, STATELESS]

in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)
stateless = pytest.mark.parametrize("mcp_version", [STATELESS])
over_all_transports = pytest.mark.parametrize("mcp_transport", TRANSPORTS)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def initialize_params(version: str = "2025-11-25", **changes: Any) -> dict[str, Any]:
    params: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "somebody", "version": "1"},
    }
    return {name: value for name, value in {**params, **changes}.items() if value is not None}


def full_server() -> Server:
    """A server that declares everything about itself."""
    server = Server(
        "desk",
        title="The desk",
        version="2.0",
        description="Helps",
        icons=[{"src": "https://example.com/icon.png"}],
        website_url="https://example.com",
        instructions="Begin with search",
    )
    server.tool(name="nothing")(lambda: None)
    server.prompt(name="nothing", complete={})(lambda: None)
    server.resource("desk://nothing", name="nothing")(lambda: None)
    return server


# Initialization.


@spec("LIFE-04", "LIFE-17")
@in_sessions
async def test_requested_protocol_version_is_negotiated(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full_server()) as client:
        assert client.initialize_result["protocolVersion"] == mcp_version
        assert client.initialize_result["instructions"] == "Begin with search"


@spec("LIFE-05", "LIFE-28")
@over_all_transports
@pytest.mark.parametrize("requested", [STATELESS, "1999-01-01", "2030-01-01", "", "latest"])
async def test_unsupported_protocol_version_is_answered_with_the_latest(
    mcp_transport: Any, requested: str
) -> None:
    client = Client(full_server(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    result = await client.request("initialize", initialize_params(requested))
    await client.close()

    assert result["protocolVersion"] == "2025-11-25"


@spec("LIFE-06")
@over_all_transports
async def test_negotiation_is_limited_to_configured_protocol_versions(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=["2024-11-05", "2025-03-26", STATELESS])

    async with Client(full_server(), version="2025-11-25", transport=mcp_transport) as client:
        assert client.revision.version == "2025-03-26"
        assert len(await client.list_tools()) == 1


SERVER_INFO_FIELDS = {
    "2024-11-05": {"name", "version"},
    "2025-03-26": {"name", "version"},
    "2025-06-18": {"name", "version", "title"},
    "2025-11-25": {"name", "version", "title", "description", "icons", "websiteUrl"},
}


@spec("LIFE-03", "LIFE-18", "ICON-02")
@in_sessions
async def test_server_info_has_exactly_the_fields_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full_server()) as client:
        info = client.initialize_result["serverInfo"]

    assert set(info) == SERVER_INFO_FIELDS[mcp_version]
    assert (info["name"], info["version"]) == ("desk", "2.0")


@spec(
    "LIFE-03",
    "LIFE-19",
    "TOOL-01",
    "RES-01",
    "PROMPT-01",
    "2026/DSC-03",
    "2026/TOOL-01",
    "2026/RES-01",
    "2026/PRM-01",
)
async def test_server_declares_capabilities_of_its_components(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full_server()) as client:
        welcome = client.initialize_result or await client.request("server/discover")

    assert {"tools", "prompts", "resources", "logging"} <= set(welcome["capabilities"])


@spec("TOOL-01", "RES-01", "PROMPT-01", "2026/RES-01")
async def test_server_declares_that_it_sends_list_changes(client_for: ClientFor) -> None:
    async with client_for(full_server()) as client:
        welcome = client.initialize_result or await client.request("server/discover")

    declared = welcome["capabilities"]
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert declared["resources"] == {"listChanged": True, "subscribe": True}


async def test_capabilities_option_adds_and_removes_capabilities(client_for: ClientFor) -> None:
    changed: dict[str, Any] = {"logging": None, "experimental": {"com.example/key": {}}}
    server = Server("desk", capabilities=changed)

    async with client_for(server) as client:
        welcome = client.initialize_result or await client.request("server/discover")

    assert welcome["capabilities"] == {"experimental": {"com.example/key": {}}}


@spec("LIFE-02")
@in_sessions
@pytest.mark.parametrize(
    "changes",
    [
        {"protocolVersion": None},
        {"protocolVersion": 1},
        {"capabilities": None},
        {"capabilities": []},
        {"clientInfo": None},
        {"clientInfo": {"name": "somebody"}},
        {"clientInfo": {"version": "1"}},
        {"clientInfo": {"name": 1, "version": "1"}},
        {"_meta": {"progressToken": 1.5}},
    ],
)
async def test_invalid_initialize_is_rejected_and_can_be_repeated(
    client_for: ClientFor, changes: dict[str, Any]
) -> None:
    client = client_for(full_server())
    await client.connect()

    params = initialize_params(client.revision.version, **changes)
    answer = await client.send(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    )
    assert answer is not None
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)

    await client.request("initialize", initialize_params(client.revision.version))
    assert len(await client.list_tools()) == 1
    await client.close()


@spec("LIFE-22")
@in_sessions
async def test_second_initialize_in_a_session_is_rejected(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full_server()) as client:
        error = await error_of(client.request("initialize", initialize_params(mcp_version)))
        assert len(await client.list_tools()) == 1

    assert error.code == -32600


@spec("LIFE-01")
@in_sessions
async def test_request_before_initialize_is_rejected(client_for: ClientFor) -> None:
    client = client_for(full_server())
    await client.connect()

    error = await error_of(client.list_tools())
    await client.close()

    assert error.code == -32600


@spec("LIFE-09")
@in_sessions
async def test_requests_are_answered_before_the_initialized_notification(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = full_server()

    @server.tool
    def ready(frame: Frame) -> str:
        return str(frame.initialized)

    client = client_for(server)
    await client.connect()
    await client.request("initialize", initialize_params(mcp_version))

    before = await client.call_tool("ready")
    await client.notify("notifications/initialized")
    after = await client.call_tool("ready")
    await client.close()

    texts = [result.text for result in (before, after)]
    assert texts == ["False", "True"]


@spec("PING-01")
@in_sessions
async def test_ping_in_a_session_returns_empty_result(client_for: ClientFor) -> None:
    async with client_for(full_server()) as client:
        assert await client.request("ping") == {}


@spec("LIFE-11", "PING-01")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
@in_sessions
async def test_ping_before_initialize_returns_empty_result(client_for: ClientFor) -> None:
    client = client_for(full_server())
    await client.connect()

    assert await client.request("ping") == {}
    await client.close()


# Discovery.


@stateless
async def test_stateless_request_is_answered_without_initialize(client_for: ClientFor) -> None:
    async with client_for(full_server()) as client:
        assert len(await client.list_tools()) == 1
        assert client.session_id is None


@spec("2026/DSC-02", "2026/JR-05", "2026/JR-09", "2026/META-04")
@stateless
async def test_stateless_results_contain_server_info_in_meta(client_for: ClientFor) -> None:
    async with client_for(full_server()) as client:
        results = [
            await client.request("server/discover"),
            await client.request("tools/list"),
            await client.call_tool("nothing"),
            await client.read_resource("desk://nothing"),
            await client.get_prompt("nothing"),
        ]

    infos = [result["_meta"]["io.modelcontextprotocol/serverInfo"] for result in results]
    assert {info["name"] for info in infos} == {"desk"}
    assert {result["resultType"] for result in results} == {"complete"}


@spec("2026/VER-04", "2026/DSC-01", "2026/DSC-02", "2026/CCH-01")
@stateless
async def test_server_discover_returns_versions_and_instructions(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full_server()) as client:
        found = await client.request("server/discover")

    assert found["supportedVersions"] == [STATELESS]
    assert found["instructions"] == "Begin with search"
    assert (found["ttlMs"], found["cacheScope"]) == (0, "private")
    assert "serverInfo" not in found


@spec("2026/DSC-04")
@stateless
async def test_instructions_are_computed_per_request_or_omitted(client_for: ClientFor) -> None:
    texts = iter(["first", "second"])

    async with client_for(Server("desk", instructions=lambda: next(texts))) as client:
        found = [(await client.request("server/discover"))["instructions"] for _ in range(2)]
    async with client_for(Server("desk")) as client:
        assert "instructions" not in await client.request("server/discover")

    assert found == ["first", "second"]


@spec("2026/DSC-05", "2026/META-01")
@stateless
@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: None},
        {VERSION: 7},
        {CAPABILITIES: None},
        {CAPABILITIES: []},
        {"io.modelcontextprotocol/clientInfo": "somebody"},
    ],
)
async def test_stateless_request_with_invalid_meta_is_rejected(
    client_for: ClientFor, meta: dict[str, Any]
) -> None:
    async with client_for(full_server()) as client:
        error = await error_of(client.request("tools/list", meta=meta))
        assert len(await client.list_tools()) == 1

    assert error.code == -32602


@spec("2026/META-02")
@stateless
async def test_client_info_is_optional_in_stateless_requests(client_for: ClientFor) -> None:
    async with client_for(full_server()) as client:
        message = client.message("tools/list")
        del message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]
        answer = await client.send(message)

    assert answer is not None
    assert len(answer["result"]["tools"]) == 1


@spec("2026/VER-02")
@pytest.mark.parametrize("mcp_transport", ["memory", "stdio"])
@pytest.mark.parametrize("version", ["2025-11-25", "v999.0.0", "2027-01-01"])
async def test_unsupported_stateless_version_is_rejected_with_supported_versions(
    mcp_transport: Any, version: str
) -> None:
    async with Client(full_server(), transport=mcp_transport) as client:
        error = await error_of(client.request("tools/list", meta={VERSION: version}))

    assert error.code == -32022
    assert error.data == {"supported": [STATELESS], "requested": version}


@spec("2026/VER-02")
@over_all_transports
async def test_stateless_request_is_rejected_when_its_version_is_not_configured(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=["2025-11-25"])

    async with Client(full_server(), transport=mcp_transport) as client:
        error = await error_of(client.request("tools/list"))

    # Of the supported versions, a client opens a session in one.
    expected = {"supported": ["2025-11-25"], "requested": STATELESS}
    assert (error.code, error.data) == (-32022, expected)


@spec("2026/VER-08")
@over_all_transports
async def test_initialize_is_rejected_with_supported_versions_on_a_stateless_site(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=[STATELESS])
    client = Client(full_server(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    error = await error_of(client.request("initialize", initialize_params()))
    await client.close()
    async with Client(full_server(), transport=mcp_transport) as another:
        assert len(await another.list_tools()) == 1

    assert error.data == {"supported": [STATELESS], "requested": "2025-11-25"}


# Both on one connection.


@spec("2026/VER-01", "2026/VER-09")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
@in_sessions
async def test_session_and_stateless_requests_share_one_stdio_connection(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = full_server()

    @server.tool
    def version(frame: Frame) -> str:
        return str(frame.get_protocol_version())

    params = {"name": "version", "arguments": {}}
    described = {"_meta": {VERSION: STATELESS, CAPABILITIES: {}}}

    async with client_for(server) as client:
        in_session = await client.send(client.message("tools/call", params))
        message = jsonrpc.request("e", "tools/call", {**params, **described})
        stateless = await client.connection.send(jsonrpc.encode(message))

    assert in_session is not None
    assert stateless is not None
    texts = [answer["result"]["content"][0]["text"] for answer in (in_session, stateless)]
    assert texts == [mcp_version, STATELESS]


@spec("2026/STD-09")
@pytest.mark.parametrize("mcp_transport", ["memory", "stdio"])
async def test_server_discover_is_answered_before_initialize(mcp_transport: Any) -> None:
    client = Client(full_server(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    described = {VERSION: STATELESS, CAPABILITIES: {}}
    probe = jsonrpc.request(1, "server/discover", {"_meta": described})
    found = await client.connection.send(jsonrpc.encode(probe))
    await client.request("initialize", initialize_params())
    assert len(await client.list_tools()) == 1
    await client.close()

    assert found is not None
    assert found["result"]["supportedVersions"] == [STATELESS]
