"""Beginning a conversation: which revision is spoken, and who is who."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.protocol import jsonrpc
from django_mcp.testing import Client
from django_mcp.testing.plugin import TRANSPORTS, ClientFor
from tests.behaviour.conftest import Configure
from tests.refusals import refusal

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
ALL = [*SESSIONS, STATELESS]

in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)
stateless = pytest.mark.parametrize("mcp_version", [STATELESS])
over_all = pytest.mark.parametrize("mcp_transport", TRANSPORTS)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def hello(version: str = "2025-11-25", **changes: Any) -> dict[str, Any]:
    params: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "somebody", "version": "1"},
    }
    return {name: value for name, value in {**params, **changes}.items() if value is not None}


def full() -> Server:
    """A server of which there is much to say."""
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


# With a handshake.


@in_sessions
async def test_the_revision_asked_for_is_agreed(client_for: ClientFor, mcp_version: str) -> None:
    async with client_for(full()) as client:
        assert client.welcome["protocolVersion"] == mcp_version
        assert client.welcome["instructions"] == "Begin with search"


@over_all
@pytest.mark.parametrize("asked", [STATELESS, "1999-01-01", "2030-01-01", "", "latest"])
async def test_instead_of_one_that_is_not_served_the_newest_is_offered(
    mcp_transport: Any, asked: str
) -> None:
    client = Client(full(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    result = await client.request("initialize", hello(asked))
    await client.close()

    assert result["protocolVersion"] == "2025-11-25"


@over_all
async def test_only_what_the_site_serves_is_agreed(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=["2024-11-05", "2025-03-26", STATELESS])

    async with Client(full(), version="2025-11-25", transport=mcp_transport) as client:
        assert client.revision.version == "2025-03-26"
        assert len(await client.list_tools()) == 1


SAID = {
    "2024-11-05": {"name", "version"},
    "2025-03-26": {"name", "version"},
    "2025-06-18": {"name", "version", "title"},
    "2025-11-25": {"name", "version", "title", "description", "icons", "websiteUrl"},
}


@in_sessions
async def test_the_server_says_of_itself_what_the_revision_has_room_for(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(full()) as client:
        info = client.welcome["serverInfo"]

    assert set(info) == SAID[mcp_version]
    assert (info["name"], info["version"]) == ("desk", "2.0")


async def test_the_server_declares_what_it_offers(client_for: ClientFor, mcp_version: str) -> None:
    async with client_for(full()) as client:
        greeting = client.welcome or await client.request("server/discover")

    assert {"tools", "prompts", "resources", "logging"} <= set(greeting["capabilities"])


async def test_a_server_may_declare_more_or_less(client_for: ClientFor) -> None:
    changed: dict[str, Any] = {"logging": None, "experimental": {"com.example/key": {}}}
    server = Server("desk", capabilities=changed)

    async with client_for(server) as client:
        greeting = client.welcome or await client.request("server/discover")

    assert greeting["capabilities"] == {"experimental": {"com.example/key": {}}}


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
async def test_a_greeting_which_lacks_something_is_refused_and_may_be_repeated(
    client_for: ClientFor, changes: dict[str, Any]
) -> None:
    client = client_for(full())
    await client.connect()

    params = hello(client.revision.version, **changes)
    answer = await client.send(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    )
    assert answer is not None
    assert (answer["id"], answer["error"]["code"]) == (1, -32602)

    await client.request("initialize", hello(client.revision.version))
    assert len(await client.list_tools()) == 1
    await client.close()


@in_sessions
async def test_an_open_session_is_not_opened_again(client_for: ClientFor, mcp_version: str) -> None:
    async with client_for(full()) as client:
        error = await refusal(client.request("initialize", hello(mcp_version)))
        assert len(await client.list_tools()) == 1

    assert error.code == -32600


@in_sessions
async def test_nothing_is_served_before_the_greeting(client_for: ClientFor) -> None:
    client = client_for(full())
    await client.connect()

    error = await refusal(client.list_tools())
    await client.close()

    assert error.code == -32600


@in_sessions
async def test_requests_are_served_before_the_client_says_it_is_ready(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = full()

    @server.tool
    def ready(frame: Frame) -> str:
        return str(frame.initialized)

    client = client_for(server)
    await client.connect()
    await client.request("initialize", hello(mcp_version))

    before = await client.call_tool("ready")
    await client.notify("notifications/initialized")
    after = await client.call_tool("ready")
    await client.close()

    texts = [result["content"][0]["text"] for result in (before, after)]
    assert texts == ["False", "True"]


@in_sessions
async def test_a_session_is_pinged(client_for: ClientFor) -> None:
    async with client_for(full()) as client:
        assert await client.request("ping") == {}


@pytest.mark.parametrize("mcp_transport", ["stdio"])
@in_sessions
async def test_a_ping_is_answered_before_the_greeting(client_for: ClientFor) -> None:
    client = client_for(full())
    await client.connect()

    assert await client.request("ping") == {}
    await client.close()


# Without a handshake.


@stateless
async def test_the_first_request_may_be_any(client_for: ClientFor) -> None:
    async with client_for(full()) as client:
        assert len(await client.list_tools()) == 1
        assert client.session_id is None


@stateless
async def test_every_result_says_who_answers(client_for: ClientFor) -> None:
    async with client_for(full()) as client:
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


@stateless
async def test_a_server_is_discovered(client_for: ClientFor, mcp_version: str) -> None:
    async with client_for(full()) as client:
        found = await client.request("server/discover")

    assert found["supportedVersions"] == [STATELESS]
    assert found["instructions"] == "Begin with search"
    assert (found["ttlMs"], found["cacheScope"]) == (0, "private")
    assert "serverInfo" not in found


@stateless
async def test_instructions_may_be_a_function_and_may_be_absent(client_for: ClientFor) -> None:
    said = iter(["first", "second"])

    async with client_for(Server("desk", instructions=lambda: next(said))) as client:
        found = [(await client.request("server/discover"))["instructions"] for _ in range(2)]
    async with client_for(Server("desk")) as client:
        assert "instructions" not in await client.request("server/discover")

    assert found == ["first", "second"]


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
async def test_a_request_which_does_not_describe_itself_is_refused(
    client_for: ClientFor, meta: dict[str, Any]
) -> None:
    async with client_for(full()) as client:
        error = await refusal(client.request("tools/list", meta=meta))
        assert len(await client.list_tools()) == 1

    assert error.code == -32602


@stateless
async def test_a_client_need_not_say_who_it_is(client_for: ClientFor) -> None:
    async with client_for(full()) as client:
        message = client.message("tools/list")
        del message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]
        answer = await client.send(message)

    assert answer is not None
    assert len(answer["result"]["tools"]) == 1


@pytest.mark.parametrize("mcp_transport", ["memory", "stdio"])
@pytest.mark.parametrize("version", ["2025-11-25", "v999.0.0", "2027-01-01"])
async def test_a_revision_which_is_not_served_is_refused_with_those_that_are(
    mcp_transport: Any, version: str
) -> None:
    async with Client(full(), transport=mcp_transport) as client:
        error = await refusal(client.request("tools/list", meta={VERSION: version}))

    assert error.code == -32022
    assert error.data == {"supported": [STATELESS], "requested": version}


@over_all
async def test_a_revision_which_the_site_does_not_serve_is_refused(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=["2025-11-25"])

    async with Client(full(), transport=mcp_transport) as client:
        error = await refusal(client.request("tools/list"))

    assert (error.code, error.data) == (-32022, {"supported": [], "requested": STATELESS})


@over_all
async def test_a_site_without_sessions_names_its_revisions_to_who_wants_one(
    mcp_transport: Any, configure: Configure
) -> None:
    configure(PROTOCOL_VERSIONS=[STATELESS])
    client = Client(full(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    error = await refusal(client.request("initialize", hello()))
    await client.close()
    async with Client(full(), transport=mcp_transport) as another:
        assert len(await another.list_tools()) == 1

    assert error.data == {"supported": [STATELESS], "requested": "2025-11-25"}


# Both on one connection.


@pytest.mark.parametrize("mcp_transport", ["stdio"])
@in_sessions
async def test_both_kinds_of_request_are_served_on_one_pipe(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = full()

    @server.tool
    def version(frame: Frame) -> str:
        return str(frame.get_protocol_version())

    params = {"name": "version", "arguments": {}}
    described = {"_meta": {VERSION: STATELESS, CAPABILITIES: {}}}

    async with client_for(server) as client:
        in_session = await client.send(client.message("tools/call", params))
        message = jsonrpc.request("e", "tools/call", {**params, **described})
        enveloped = await client.connection.send(jsonrpc.encode(message))

    assert in_session is not None
    assert enveloped is not None
    texts = [answer["result"]["content"][0]["text"] for answer in (in_session, enveloped)]
    assert texts == [mcp_version, STATELESS]


@pytest.mark.parametrize("mcp_transport", ["memory", "stdio"])
async def test_a_client_may_look_what_is_there_before_it_decides(mcp_transport: Any) -> None:
    client = Client(full(), version="2025-11-25", transport=mcp_transport)
    await client.connect()

    described = {VERSION: STATELESS, CAPABILITIES: {}}
    probe = jsonrpc.request(1, "server/discover", {"_meta": described})
    found = await client.connection.send(jsonrpc.encode(probe))
    await client.request("initialize", hello())
    assert len(await client.list_tools()) == 1
    await client.close()

    assert found is not None
    assert found["result"]["supportedVersions"] == [STATELESS]
