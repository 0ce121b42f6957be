"""What a connection selects by its URL: groups, and what only reads. It only ever removes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Server, Tool
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.testing import Client
from django_mcp.testing.results import ErrorResponse
from tests.core.dispatch.guarded import LISTS, Member, Use
from tests.wire.messages import STATELESS

SESSION = "2025-11-25"
VERSIONS = [SESSION, STATELESS]


@pytest.fixture
def closed() -> list[str]:
    """What the tool ``close_ticket`` has done."""
    return []


@pytest.fixture
def office(closed: list[str]) -> Server:
    """Two groups and components without one; billing is for members with a permission."""
    server = Server("office", capabilities={"resources": {"subscribe": True}})
    tickets: Any = {"group": "tickets"}
    billing: Any = {"group": "billing", "permission": "office.bill"}

    @server.tool(read_only=True, **tickets)
    async def list_tickets() -> str:
        return "listed"

    @server.tool(**tickets)
    async def close_ticket() -> str:
        closed.append("closed")
        return "closed"

    @server.tool(read_only=True, **tickets)
    async def report(frame: Frame) -> str:
        """Call tools within the call."""
        return str(await server.acall_tool("ping", frame=frame))

    @server.tool(read_only=True, **billing)
    async def list_invoices() -> str:
        return "invoices"

    @server.tool
    async def ping() -> str:
        return "pong"

    for group, options in {"tickets": tickets, "billing": billing, "none": {}}.items():
        uri = f"{group}://all"
        server.resource(uri, name=f"{group}-all", **options)(lambda: "all")
        server.resource(f"{group}://{{n}}/one", name=f"{group}-one", **options)(lambda n: n)
        completed: Any = {"complete": {"n": lambda value: ["7"]}, **options}
        server.prompt(name=group, **completed)(lambda n: n)
    return server


def connect(server: Server, query: str, version: str = STATELESS, **options: Any) -> Client:
    user = options.pop("user", Member(is_permitted=False))
    return Client(server, transport="http", query=query, version=version, user=user, **options)


async def names(client: Client) -> set[str]:
    lists = [
        await client.list_tools(),
        await client.list_resources(),
        await client.list_resource_templates(),
        await client.list_prompts(),
    ]
    return {item["name"] for items in lists for item in items}


TICKETS = {"list_tickets", "close_ticket", "report", "tickets-all", "tickets-one", "tickets"}
BILLING = {"list_invoices", "billing-all", "billing-one", "billing"}
UNGROUPED = {"ping", "none-all", "none-one", "none"}
WRITES = {"close_ticket", "ping"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", TICKETS | BILLING | UNGROUPED),
        ("page=1", TICKETS | BILLING | UNGROUPED),
        ("groups=tickets", TICKETS),
        ("groups=billing,%20tickets,", TICKETS | BILLING),
        ("read_only=1", (TICKETS | BILLING | UNGROUPED) - WRITES),
        ("groups=tickets&read_only=true", TICKETS - WRITES),
        ("groups=tickets&read_only=0", TICKETS),
    ],
)
async def test_lists_have_what_the_connection_selects(
    office: Server, version: str, query: str, expected: set[str]
) -> None:
    async with connect(office, query, version, user=Member(is_permitted=True)) as client:
        assert await names(client) == expected


@pytest.mark.parametrize("version", VERSIONS)
async def test_selection_does_not_show_what_is_hidden(office: Server, version: str) -> None:
    async with connect(office, "read_only=1", version) as client:
        assert await names(client) == (TICKETS | UNGROUPED) - WRITES


def uses(name: str, tool: str) -> list[Use]:
    argument = {"name": "n", "value": ""}
    template = f"{name}://{{n}}/one"
    return [
        ("tools/call", {"name": tool}),
        ("resources/read", {"uri": f"{name}://all"}),
        ("resources/read", {"uri": f"{name}://7/one"}),
        ("prompts/get", {"name": name, "arguments": {"n": "7"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": name}, "argument": argument},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": template}, "argument": argument},
        ),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_excluded_component_is_answered_like_a_missing_one(
    office: Server, version: str
) -> None:
    async with connect(office, "groups=tickets", version) as client:
        excluded = uses("none", "ping")
        missing = uses("nine", "pong")
        if version == SESSION:
            excluded.append(("resources/subscribe", {"uri": "none://all"}))
            missing.append(("resources/subscribe", {"uri": "nine://all"}))
        for use, unknown in zip(excluded, missing, strict=True):
            answer = await client.send({**client.message(*use), "id": 1})
            expected = await client.send({**client.message(*unknown), "id": 1})
            assert answer is not None
            assert "error" in answer
            # Both names have four letters.
            text = str(answer).replace("none", "nine").replace("ping", "pong")
            assert text == str(expected)


@pytest.mark.parametrize("version", VERSIONS)
async def test_read_only_connection_cannot_call_a_tool_that_writes(
    office: Server, version: str, closed: list[str]
) -> None:
    async with connect(office, "read_only=1", version) as client:
        with pytest.raises(ErrorResponse, match="Unknown tool: close_ticket"):
            await client.call_tool("close_ticket")
        assert (await client.call_tool("list_tickets")).text == "listed"
        assert (await client.read_resource("tickets://7/one"))["contents"][0]["text"] == "7"
    assert closed == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", ["billing", "nobody_has_this"])
async def test_hidden_group_is_answered_like_an_unknown_one(
    office: Server, version: str, group: str
) -> None:
    client = connect(office, f"groups=tickets,{group}", version)
    requests: list[Use] = [(method, {}) for method in LISTS]
    requests.append(("tools/call", {"name": "list_invoices"}))
    if version == SESSION:
        requests = [("initialize", {"protocolVersion": version, "capabilities": {}})]
        requests[0][1]["clientInfo"] = {"name": "test", "version": "1"}
        await client.connect()
    else:
        requests.append(("server/discover", {}))
    for request in requests:
        with pytest.raises(ErrorResponse) as caught:
            await client._call(*request, None)
        assert caught.value.status == 400
        assert str(caught.value) == (
            f"-32602: There is no group '{group}' in the URL's groups: you can select tickets"
        )
    await client.close()


async def test_group_of_a_caller_with_the_permission_can_be_selected(office: Server) -> None:
    async with connect(office, "groups=billing", user=Member(is_permitted=True)) as client:
        assert (await client.call_tool("list_invoices")).text == "invoices"
        with pytest.raises(ErrorResponse, match="you can select billing, tickets"):
            await connect(office, "groups=sales", user=Member(is_permitted=True)).list_tools()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("groups=", "groups names no group"),
        ("groups=tickets&groups=billing", "groups is in the URL twice"),
        ("group=tickets", "write groups"),
        ("readonly=1", "write read_only"),
        ("read-only=1", "write read_only"),
        ("read_only=yes", "write read_only=1"),
        ("read_only", "write read_only=1"),
        ("tools=some", "write tools=all"),
        (f"groups={','.join(map(str, range(65)))}", "at most 64 groups"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
async def test_query_that_selects_nothing_is_rejected(
    office: Server, version: str, query: str, message: str
) -> None:
    client = connect(office, query, version)
    with pytest.raises(ErrorResponse, match=message) as caught:
        await client.list_tools()
    assert caught.value.status == 400
    await client.close()


@pytest.mark.parametrize("name", ["read_only", "tools"])
async def test_message_about_a_long_value_quotes_its_first_64_characters(
    office: Server, name: str
) -> None:
    client = connect(office, f"{name}={'a' * 65}")
    with pytest.raises(ErrorResponse, match=f"{name} is '{'a' * 64}': write {name}="):
        await client.list_tools()
    await client.close()


@pytest.mark.parametrize("query", ["groups=tickets", "read_only=1"])
async def test_call_within_a_call_is_restricted_like_the_connection(
    office: Server, query: str
) -> None:
    async with connect(office, "") as client:
        assert "pong" in (await client.call_tool("report")).text
    async with connect(office, query) as client:
        with pytest.raises(ErrorResponse, match="Unknown tool: ping"):
            await client.call_tool("report")


async def test_tools_of_a_session_are_selected_like_declared_ones() -> None:
    server = Server("office")

    @server.tool(group="tickets", read_only=True)
    async def start(frame: Frame) -> tuple[str, Frame]:
        frame = frame.register_tool("inside", group="tickets", handler=f"{__name__}:answer")
        return "started", frame.register_tool("outside", handler=f"{__name__}:answer")

    async with connect(server, "groups=tickets", SESSION) as client:
        await client.call_tool("start")
        assert {tool["name"] for tool in await client.list_tools()} == {"start", "inside"}
        assert (await client.call_tool("inside")).text == "answered"
        with pytest.raises(ErrorResponse, match="Unknown tool: outside"):
            await client.call_tool("outside")


async def answer() -> str:
    return "answered"


async def test_session_of_another_url_follows_the_url_of_each_request(office: Server) -> None:
    async with connect(office, "", SESSION) as client:
        await client.call_tool("ping")
        narrow = connect(office, "read_only=1", SESSION)
        narrow.connection.session_id = client.session_id
        narrow._is_open = True
        assert "ping" not in {tool["name"] for tool in await narrow._list("tools/list", "tools")}


async def test_list_of_a_selection_is_made_once(
    office: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[str] = []
    original: Callable[[ToolComponent], dict[str, Any]] = ToolComponent.descriptor
    examined: list[str] = []
    includes = Selection.includes

    def descriptor(tool: ToolComponent) -> dict[str, Any]:
        described.append(tool.name)
        return original(tool)

    def counted(selection: Selection, component: Any) -> bool:
        examined.append(component.name)
        return includes(selection, component)

    monkeypatch.setattr(ToolComponent, "descriptor", descriptor)
    monkeypatch.setattr(Selection, "includes", counted)
    async with connect(office, "groups=tickets") as client:
        first = await client.list_tools()
        described.clear()
        examined.clear()
        assert await client.list_tools() == first
    async with connect(office, "groups=tickets", user=Member(is_permitted=True)) as client:
        assert await client.list_tools() == first
    assert (described, examined) == ([], [])

    office.components.replace(tool_component(answer, name="new", group="tickets"))

    async with connect(office, "groups=tickets") as client:
        assert len(await client.list_tools()) == len(first) + 1


def test_selections_that_are_kept_are_bounded(office: Server) -> None:
    for number in range(1000):
        office.components.in_order("tool", Selection(groups=frozenset([str(number)])))

    assert len(office.components._all["tool"]._selected) <= 128
    selected = office.components.in_order("tool", Selection(groups=frozenset(["tickets"])))
    assert {item.name for item in selected.listed} == {"list_tickets", "close_ticket", "report"}


def test_stored_selection_is_the_same() -> None:
    for groups in (None, frozenset(["a", "b"])):
        selection = Selection(groups=groups, read_only=True)
        assert Selection.from_json(selection.to_json()) == selection


def test_group_is_an_option_and_an_attribute() -> None:
    class Close(Tool):
        """Close a ticket."""

        group = "tickets"

        def execute(self) -> None: ...

    assert tool_component(Close).group == "tickets"
    assert tool_component(Close, group="closing").group == "closing"
    for wrong in ("a,b", "", "ä", 7, "x" * 65):
        options: Any = {"group": wrong}
        with pytest.raises(ConfigurationError, match=r"The group of .*execute"):
            tool_component(Close, **options)


# Scopes of groups.


def till() -> Server:
    server = Server("till", group_scopes={"tickets": [], "billing": ["billing"]})
    server.tool(name="list_tickets", group="tickets")(answer)
    server.tool(name="list_invoices", group="billing", scopes=["invoices"])(answer)
    server.tool(name="ping")(answer)
    return server


@pytest.mark.parametrize(
    ("scopes", "missing"),
    [(["invoices"], True), (["billing"], True), (["invoices", "billing"], False)],
)
async def test_token_needs_the_scopes_of_the_group_and_of_the_tool(
    scopes: list[str], missing: bool
) -> None:
    async with Client(till(), scopes=scopes) as client:
        assert (await client.call_tool("list_tickets")).text == "answered"
        if missing:
            with pytest.raises(ErrorResponse) as caught:
                await client.call_tool("list_invoices")
            assert caught.value.data == {"scopes": ["billing", "invoices"]}
        else:
            assert (await client.call_tool("list_invoices")).text == "answered"


def test_group_without_an_entry_in_group_scopes_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="does not have the group 'biling'"):
        till().tool(name="pay", group="biling")(answer)


def test_principal_without_a_selection_has_all_components(office: Server) -> None:
    assert Principal(scheme="token", subject="1").selection is None
    offered = office.components.in_order("tool")
    assert offered.listed is office.components.of_kind("tool")
    assert office.components.encoded_list(NEWEST, offered.listed)
