"""A server with ``tool_search`` lists a chosen few; a model finds and calls the others by words."""

from __future__ import annotations

import json
import logging
import sys
from typing import Annotated, Any

import pytest
from django.utils import translation
from django.utils.translation import gettext_lazy

from django_mcp import Frame, Header, Server
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import tool_component
from django_mcp.testing import Client, SyncClient
from django_mcp.testing.results import ErrorResponse
from django_mcp.tool_search.index import ToolIndex, ToolIndexes, words_of
from tests.core.dispatch.guarded import Member
from tests.tool_search.catalogue import MORE_QUESTIONS, QUESTIONS, catalogue, few_tools
from tests.wire.messages import STATELESS

SESSION = "2025-11-25"
VERSIONS = [SESSION, STATELESS]
BOTH = ["call_tool", "find_tools"]


def index_of(server: Server) -> ToolIndex:
    return server.state(ToolIndexes).of(server.components.of_kind("tool"))


@pytest.fixture
def office() -> Server:
    server = Server("office", tool_search=True)

    @server.tool(always_load=True)
    async def whoami() -> str:
        """Say who calls."""
        return "you"

    @server.tool(group="rooms", search_hint="conference, meeting")
    async def reserve_room(number: Annotated[int, Header("Number")], frame: Frame) -> str:
        """Reserve a room."""
        return f"{number} {frame.message.params['name']} {frame.message.params['arguments']}"

    @server.tool(read_only=True)
    async def list_rooms() -> str:
        """List the rooms for meetings."""
        return "1, 2"

    @server.tool(permission="office.demolish")
    async def demolish_room() -> str:
        """Demolish a room."""
        return "gone"

    @server.tool
    async def rename_room(frame: Frame) -> str:
        """Ask for another name of a room."""
        answer = await frame.client.aelicit("Which name?", {"name": {"type": "string"}})
        return f"Renamed to {answer.content['name']}"

    return server


def connect(server: Server, version: str, query: str = "", **options: Any) -> Client:
    user = options.pop("user", Member(is_permitted=False))
    return Client(server, transport="http", query=query, version=version, user=user, **options)


async def found(client: Client, query: str, **arguments: Any) -> list[str]:
    result = await client.call_tool("find_tools", {"query": query, **arguments})
    return [tool["name"] for tool in json.loads(result.text)["tools"]]


async def through(client: Client, name: str, arguments: dict[str, Any] | None = None) -> Any:
    given = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return await client.call_tool("call_tool", given)


@pytest.mark.parametrize("version", VERSIONS)
async def test_list_has_the_chosen_few_unless_the_connection_wants_all(
    office: Server, version: str
) -> None:
    async with connect(office, version) as client:
        assert [tool["name"] for tool in await client.list_tools()] == [*BOTH, "whoami"]
    everything = [*BOTH, "list_rooms", "rename_room", "reserve_room", "whoami"]
    async with connect(office, version, "tools=all") as client:
        assert [tool["name"] for tool in await client.list_tools()] == everything
    names = [tool["name"] for tool in await office.alist_tools()]
    assert names == everything


@pytest.mark.parametrize("version", VERSIONS)
async def test_search_returns_what_a_call_needs(office: Server, version: str) -> None:
    async with connect(office, version) as client:
        result = await client.call_tool("find_tools", {"query": "conference"})
        (tool,) = json.loads(result.text)["tools"]
        listed = {
            item["name"]: item for item in await connect(office, version, "tools=all").list_tools()
        }
    expected = listed["reserve_room"]
    assert tool == {name: expected[name] for name in ("name", "description", "inputSchema")}


async def test_search_finds_only_what_the_caller_may_use_and_has_selected(office: Server) -> None:
    rooms = ["list_rooms", "rename_room", "reserve_room"]
    async with connect(office, STATELESS) as client:
        assert sorted(await found(client, "rooms")) == rooms
        assert len(await found(client, "rooms", limit=2)) == 2
        assert await found(client, "elephants") == []
        for limit in (0, 21):
            result = await client.call_tool("find_tools", {"query": "rooms", "limit": limit})
            assert result.is_error
    async with connect(office, STATELESS, user=Member(is_permitted=True)) as client:
        assert sorted(await found(client, "rooms")) == ["demolish_room", *rooms]
    async with connect(office, STATELESS, "groups=rooms") as client:
        assert await found(client, "rooms") == ["reserve_room"]
    async with connect(office, STATELESS, "read_only=1") as client:
        assert await found(client, "rooms") == ["list_rooms"]
        assert (await through(client, "list_rooms")).text == "1, 2"
        with pytest.raises(ErrorResponse, match="Unknown tool: reserve_room"):
            await through(client, "reserve_room", {"number": 7})


@pytest.mark.parametrize("version", VERSIONS)
async def test_tool_is_called_as_if_the_client_had_named_it(
    office: Server, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def watch(frame: Frame, call_next: Any) -> Any:
        seen.append(frame.message.params.get("name", ""))
        return await call_next(frame)

    office.middleware = (watch,)
    caplog.set_level(logging.INFO, "django_mcp.calls")
    async with connect(office, version) as client:
        result = await through(client, "reserve_room", {"number": 7})
        assert result.text == "7 reserve_room {'number': 7}"
        invalid = await through(client, "reserve_room", {"number": "x"})
        assert invalid.is_error
        direct = connect(office, version, headers={"mcp-param-number": "x"})
        assert invalid == await direct.call_tool("reserve_room", {"number": "x"})
        assert (await through(client, "whoami")).text == "you"
    assert {*seen} <= {"", "reserve_room", "whoami"}
    records = [record for record in caplog.records if record.name == "django_mcp.calls"]
    assert {record.mcp_name for record in records} == {"reserve_room", "whoami"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", VERSIONS)
async def test_hidden_tool_is_answered_like_a_missing_one(office: Server, version: str) -> None:
    async with connect(office, version) as client:
        errors = []
        for name in ("demolish_room", "demolish_moon"):
            with pytest.raises(ErrorResponse) as caught:
                await through(client, name)
            errors.append((str(caught.value).replace("moon", "room"), caught.value.status))
    assert errors[0] == errors[1]
    async with connect(office, version, user=Member(is_permitted=True)) as client:
        assert (await through(client, "demolish_room")).text == "gone"


@pytest.mark.parametrize("version", VERSIONS)
async def test_tool_that_is_called_through_another_may_request_input(
    office: Server, version: str
) -> None:
    accepted = {"action": "accept", "content": {"name": "Blue"}}
    options: Any = {"version": version, "elicitation": accepted}
    async with Client(office, user=Member(is_permitted=False), **options) as client:
        assert (await through(client, "rename_room")).text == "Renamed to Blue"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name"),
        ({"name": 7}, "name"),
        ({"name": "whoami", "arguments": [1]}, "arguments"),
        ({"name": "whoami", "other": 1}, "other"),
        ({"name": "call_tool", "arguments": {"name": "whoami"}}, "cannot call"),
    ],
)
async def test_malformed_call_is_an_error_that_says_what_is_wrong(
    office: Server, arguments: dict[str, Any], message: str
) -> None:
    async with connect(office, STATELESS) as client:
        result = await client.call_tool("call_tool", arguments)
    assert result.is_error
    assert message in result.text


@pytest.fixture
def workshop() -> Server:
    """A server with a search, and a tool that is always a task."""
    server = Server("workshop", tool_search=True)

    @server.tool(task_support="required", read_only=True)
    async def build(height: int) -> dict[str, int]:
        """Build a tower."""
        return {"height": height}

    return server


@pytest.mark.parametrize("version", VERSIONS)
async def test_search_returns_annotations_and_schemas_of_results(
    workshop: Server, version: str
) -> None:
    async with connect(workshop, version) as client:
        found = await client.call_tool("find_tools", {"query": "build a tower"})
    described = found.structured["tools"][0]
    assert described["annotations"]["readOnlyHint"]
    assert described["outputSchema"]["type"] == "object"
    assert described.get("execution") == (
        {"taskSupport": "required"} if version == SESSION else None
    )


async def test_calls_through_another_tool_may_be_tasks_if_some_tool_supports_them(
    workshop: Server, office: Server
) -> None:
    declared = []
    for server in (workshop, office):
        async with connect(server, SESSION) as client:
            tools = (await client.request("tools/list"))["tools"]
            call = next(tool for tool in tools if tool["name"] == "call_tool")
            has_tasks = "tasks" in client.initialize_result["capabilities"]
            declared.append((call.get("execution"), has_tasks))
    assert declared == [({"taskSupport": "optional"}, True), (None, False)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_tool_that_is_always_a_task_can_be_called_through_another(
    workshop: Server, version: str
) -> None:
    async with connect(workshop, version) as client:
        arguments = {"name": "build", "arguments": {"height": 3}}
        result = await client.call_tool("call_tool", arguments)
    assert result.structured == {"height": 3}


async def test_server_without_the_option_has_no_search() -> None:
    server = Server("plain")
    server.tool(name="a")(nothing)
    async with Client(server) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["a"]
        with pytest.raises(ErrorResponse, match="Unknown tool: call_tool"):
            await client.call_tool("call_tool", {"name": "a"})


def test_own_tool_of_the_same_name_is_an_error() -> None:
    server = Server("office", tool_search=True)
    with pytest.raises(ConfigurationError, match="find_tools"):
        server.tool(name="find_tools")(nothing)


async def nothing() -> str:
    """Do nothing."""
    return ""


# The ranking.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list_ip_addresses", "list ip address"),
        ("createLeaveRequest", "creat leav request"),
        ("deleted deleting deletes delete", "delet delet delet delet"),
        ("categories boxes shipped status", "category box ship status"),
        ("HTTPStatus of the V2 API", "httpstatus v 2 api"),
        ("Show me all, please", "list list"),
    ],
)
def test_words_are_compared_without_endings(text: str, expected: str) -> None:
    assert words_of(text) == expected.split()


@pytest.mark.parametrize(
    ("questions", "fewest"), [(QUESTIONS, 37), (MORE_QUESTIONS, 18)], ids=["tuned", "fresh"]
)
def test_questions_in_words_find_the_right_tool_among_the_first_five(
    questions: dict[str, str], fewest: int
) -> None:
    index = index_of(catalogue())
    hits = []
    for question, name in questions.items():
        first = [tool.name for part in index.ranked(question) for tool in part][:5]
        if name in first:
            hits.append(question)
    assert len(questions) in (20, 40)
    assert len(hits) >= fewest, questions.keys() - {*hits}


@pytest.mark.parametrize(
    ("description", "queries"),
    [
        ("PDF請求書を検索する", ["請求書", "pdf", "請求書の検索", "検索"]),
        ("查询客户的发票", ["发票", "客户发票"]),
        ("コーヒーを注文します", ["コーヒー", "注文"]),
        ("청구서를 검색합니다", ["청구서", "청구서가 어디에 있어요?"]),
    ],
)
def test_languages_without_spaces_between_words_are_searched(
    description: str, queries: list[str]
) -> None:
    server = Server("office")
    for name, text in (("first", "倉庫"), ("second", description), ("third", "창고 管理")):
        server.tool(name=name, description=text)(lambda: None)
    for query in queries:
        tools = [tool.name for part in index_of(server).ranked(query) for tool in part]
        assert tools == ["second"], query


def test_tool_that_deletes_ranks_first_only_if_that_is_asked() -> None:
    server = Server("office")
    for verb in ("delete", "close", "archive"):
        server.tool(name=f"{verb}_ticket", description="Of a ticket.")(nothing)
    index = index_of(server)
    (ordered,) = index.ranked("ticket")
    assert ordered[-1].name == "delete_ticket"
    (ordered,) = index.ranked("remove the ticket")
    assert ordered[0].name == "delete_ticket"


def test_parameters_do_not_outweigh_the_name_of_a_tool() -> None:
    server = Server("office")
    nouns = ("cable", "device", "port", "rack")
    for noun in nouns:
        filters = [f"{other}_{n}" for other in nouns if other != noun for n in range(60)]
        schema: dict[str, Any] = {"type": "object", "properties": {name: {} for name in filters}}
        server.tool(name=f"list_{noun}", description="Of the site.", input_schema=schema)(nothing)
    index = index_of(server)
    for noun in nouns:
        first = next(tool for part in index.ranked(f"show the {noun}s") for tool in part)
        assert first.name == f"list_{noun}"


class Instructions:
    """Counts the instructions of Python that this thread executes."""

    def __init__(self) -> None:
        self.count = 0

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self._trace

    def __enter__(self) -> Instructions:
        self._former = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._former)


async def work_of(server: Server) -> dict[str, int]:
    """Count the instructions of one page of the list, a search, and a call of a found tool."""
    question = {"query": "Which tickets are urgent?"}
    arguments = {"name": "help_ticket_list", "arguments": {"priority": "high"}}
    requests: dict[str, tuple[str, str, dict[str, Any]]] = {
        "list": ("tools=all", "tools/list", {}),
        "search": ("", "tools/call", {"name": "find_tools", "arguments": question}),
        "call": ("", "tools/call", {"name": "call_tool", "arguments": arguments}),
    }
    work: dict[str, int] = {}
    for name, (query, method, params) in requests.items():
        counts = []
        async with connect(server, SESSION, query) as client:
            for _ in range(4):
                with Instructions() as instructions:
                    result = await client.request(method, params)
                counts.append(instructions.count)
        assert not result.get("isError")
        # The first ones also fill caches.
        work[name] = min(counts)
    return work


async def test_work_of_2000_tools_is_within_1_3_of_that_of_20() -> None:
    few = await work_of(few_tools(20, page_size=20))
    many = catalogue(7, page_size=20)
    assert len(many.components.of_kind("tool")) > 2000
    most = await work_of(many)
    ratios = {name: most[name] / few[name] for name in few}
    assert max(ratios.values()) <= 1.3, ratios


async def test_search_returns_twenty_tools_if_a_model_asks_for_them() -> None:
    server = Server("office", tool_search=True)
    for number in range(21):
        server.tool(name=f"ticket_{number}")(nothing)
    async with connect(server, STATELESS) as client:
        assert len(await found(client, "ticket", limit=20)) == 20


async def test_caller_with_few_permissions_finds_a_tool_behind_many_hidden_ones() -> None:
    server = Server("office", tool_search=True)
    for number in range(300):
        name = f"ticket_ticket_{number}"
        server.tool(name=name, permission="office.all")(nothing)
    server.tool(name="count_all", description="Count every open or closed ticket")(nothing)
    async with connect(server, STATELESS) as client:
        assert await found(client, "ticket") == ["count_all"]


async def ranks(hidden: int, user: Member, **guard: Any) -> list[str]:
    """Return what is found of two tools, beside some hidden ones with a word of one of them."""
    server = Server("office", tool_search=True)
    server.tool(name="wrap_parcel", description="To a customer.")(nothing)
    server.tool(name="weigh_letter", description="To a customer.")(nothing)
    for number in range(hidden):
        name = f"weigh_person_{number}"
        server.tool(name=name, description="Long. " * 90, **guard)(nothing)
    async with connect(server, STATELESS, user=user) as client:
        return await found(client, "wrap the parcel, weigh the letter", limit=20)


@pytest.mark.parametrize(
    "guard",
    [{"permission": "office.all"}, {"scopes": "office", "when_denied": "hidden"}],
    ids=["permission", "scopes"],
)
async def test_hidden_tools_change_nothing_in_what_others_find(guard: dict[str, Any]) -> None:
    without = await ranks(0, Member(is_permitted=False))
    assert without == ["weigh_letter", "wrap_parcel"]
    assert await ranks(30, Member(is_permitted=False), **guard) == without


async def test_callers_of_one_server_find_what_each_may_use_in_turn() -> None:
    assert len(await ranks(15, Member(is_permitted=True), permission="office.all")) == 17
    server = Server("office", tool_search=True)
    server.tool(name="ticket_open")(nothing)
    server.tool(name="ticket_all", permission="office.all")(nothing)
    for _ in range(2):
        for is_permitted, expected in ((True, 2), (False, 1)):
            async with connect(server, STATELESS, user=Member(is_permitted=is_permitted)) as client:
                assert len(await found(client, "ticket")) == expected


# What hosts read.


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
def test_translated_words_find_a_tool_whatever_language_was_searched_first(
    languages: tuple[str, str],
) -> None:
    server = Server("office", tool_search=True)

    @server.tool(title=gettext_lazy("Yes"))
    async def agree() -> None: ...

    @server.tool
    async def other() -> None: ...

    names: dict[str, list[str]] = {}
    for language in languages:
        with translation.override(language), SyncClient(server) as client:
            for word in ("yes", "ja"):
                result = client.call_tool("find_tools", {"query": word})
                tools = json.loads(result.text)["tools"]
                names[f"{language} {word}"] = [tool["name"] for tool in tools]

    assert names == {"en yes": ["agree"], "en ja": [], "de yes": [], "de ja": ["agree"]}


def test_indexes_of_all_languages_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = catalogue().components.of_kind("tool")
    monkeypatch.setattr("django_mcp.tool_search.index.MAX_INDEXED", len(tools))
    indexes = ToolIndexes()
    with translation.override("en"):
        english = indexes.of(tools)
        assert indexes.of(tools) is english
    with translation.override("de"):
        indexes.of(tools)
    with translation.override("en"):
        assert indexes.of(tools) is not english


def test_hints_for_hosts_are_listed_as_meta() -> None:
    async def report() -> str:
        """Report."""
        return ""

    tool = tool_component(
        report,
        always_load=True,
        search_hint="turnover",
        max_result_chars=100_000,
        requires_user_interaction=True,
        meta={"com.example/a": 1, "anthropic/searchHint": "sales"},
    )
    assert tool.descriptor()["_meta"] == {
        "anthropic/alwaysLoad": True,
        "anthropic/searchHint": "sales",
        "anthropic/maxResultSizeChars": 100_000,
        "anthropic/requiresUserInteraction": True,
        "com.example/a": 1,
    }
    assert "_meta" not in tool_component(report, always_load=False).descriptor()
    wrong: list[dict[str, Any]] = [
        {"max_result_chars": 0},
        {"max_result_chars": 500_001},
        {"max_result_chars": True},
        {"search_hint": 7},
        {"requires_user_interaction": "yes"},
    ]
    for options in wrong:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            tool_component(report, **options)
