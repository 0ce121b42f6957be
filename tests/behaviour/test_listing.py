"""What a server lists: in which order, in which words, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import CacheHint, ConfigurationError, Frame, Server
from django_mcp.components.tool import tool_component
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.behaviour.conftest import Configure
from tests.refusals import refusal

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def nothing() -> None:
    """Does nothing."""


def many(count: int, **options: Any) -> Server:
    """A server which offers so many of everything."""
    server = Server("many", **options)
    for number in range(count):
        server.tool(name=f"tool_{number}")(nothing)
        server.prompt(name=f"prompt_{number}")(nothing)
        server.resource(f"many://{number}")(nothing)

        def read(page: str) -> str:
            return page

        server.resource(f"many://{number}/{{page}}", name=f"template_{number}")(read)
    return server


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [each.get("uri") or each.get("uriTemplate") or each["name"] for each in listed]


async def test_everything_is_listed_by_order_and_then_by_name(client_for: ClientFor) -> None:
    server = Server("shop")
    for name, order in [("b", 0), ("z", -1), ("a", 0), ("first", -10), ("last", 5)]:
        server.tool(name=name, order=order)(nothing)

    async with client_for(server) as client:
        listed = await client.list_tools()

    assert names(listed) == ["first", "z", "a", "b", "last"]


async def test_every_page_but_the_last_says_where_the_next_one_begins(
    client_for: ClientFor,
) -> None:
    async with client_for(many(5, page_size=2)) as client:
        for method, member in LISTS.items():
            first = await client.request(method)
            second = await client.request(method, {"cursor": first["nextCursor"]})
            third = await client.request(method, {"cursor": second["nextCursor"]})

            listed = [names(page[member]) for page in (first, second, third)]
            assert [len(page) for page in listed] == [2, 2, 1]
            assert sum(listed, []) == sorted(sum(listed, []))
            assert "nextCursor" not in third


async def test_a_last_page_which_is_full_has_no_successor(client_for: ClientFor) -> None:
    async with client_for(many(4, page_size=2)) as client:
        first = await client.request("tools/list")
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})

    assert "nextCursor" not in second


async def test_the_page_size_of_the_site_holds_where_the_server_has_none(
    client_for: ClientFor, configure: Configure
) -> None:
    configure(PAGE_SIZE=3)

    async with client_for(many(4)) as client:
        page = await client.request("prompts/list")

    assert len(page["prompts"]) == 3


async def test_a_cursor_goes_on_where_its_page_ended_whatever_came_and_went(
    client_for: ClientFor,
) -> None:
    server = many(4, page_size=2)

    async with client_for(server) as client:
        first = await client.request("tools/list")
        server.remove("tool", "tool_1")
        server.tool(name="tool_0a")(nothing)
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})

    assert names(first["tools"]) == ["tool_0", "tool_1"]
    assert names(second["tools"]) == ["tool_2", "tool_3"]


@pytest.mark.parametrize("cursor", ["", "forged", 7, None, {}, "x" * 5000])
async def test_a_cursor_which_was_not_issued_is_refused(client_for: ClientFor, cursor: Any) -> None:
    async with client_for(many(1)) as client:
        error = await refusal(client.request("tools/list", {"cursor": cursor}))
        assert names(await client.list_tools()) == ["tool_0"]

    assert (error.code, error.message) == (-32602, "Invalid cursor")


async def test_a_cursor_is_good_for_its_own_list_alone(client_for: ClientFor) -> None:
    async with client_for(many(2, page_size=1)) as client:
        cursor = (await client.request("tools/list"))["nextCursor"]
        error = await refusal(client.request("prompts/list", {"cursor": cursor}))

    assert error.code == -32602


async def test_a_cursor_is_good_for_its_own_server_alone(client_for: ClientFor) -> None:
    other = Server("other", page_size=1)
    other.tool(name="a")(nothing)
    other.tool(name="b")(nothing)

    async with client_for(many(2, page_size=1)) as client, client_for(other) as another:
        cursor = (await client.request("tools/list"))["nextCursor"]
        error = await refusal(another.request("tools/list", {"cursor": cursor}))

    assert error.code == -32602


async def test_an_empty_server_declares_nothing_and_knows_no_lists(client_for: ClientFor) -> None:
    async with client_for(Server("empty")) as client:
        errors = [await refusal(client.request(method)) for method in LISTS]
        greeting = client.welcome or await client.request("server/discover")

    assert {error.code for error in errors} == {-32601}
    assert set(greeting["capabilities"]) == {"logging"}


async def test_a_list_of_what_is_declared_may_be_empty(client_for: ClientFor) -> None:
    server = Server("empty", capabilities={"tools": {}, "resources": {}, "prompts": {}})

    async with client_for(server) as client:
        listed = [(await client.request(method))[member] for method, member in LISTS.items()]

    assert listed == [[], [], [], []]


async def test_what_a_server_no_longer_declares_it_does_not_list(client_for: ClientFor) -> None:
    server = Server("shop", capabilities={"tools": None})
    server.tool(name="hidden")(lambda: None)

    async with client_for(server) as client:
        errors = [await refusal(client.list_tools()), await refusal(client.call_tool("hidden"))]

    assert {error.code for error in errors} == {-32601}


TOOL: dict[str, set[str]] = {
    "2024-11-05": {"name", "description", "inputSchema"},
    "2025-03-26": {"annotations"},
    "2025-06-18": {"title", "outputSchema", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}
RESOURCE: dict[str, set[str]] = {
    "2024-11-05": {"uri", "name", "description", "mimeType", "size", "annotations"},
    "2025-03-26": set(),
    "2025-06-18": {"title", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}
PROMPT: dict[str, set[str]] = {
    "2024-11-05": {"name", "description", "arguments"},
    "2025-03-26": set(),
    "2025-06-18": {"title", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}


def up_to(table: dict[str, set[str]], version: str) -> set[str]:
    """What a revision and those before it added."""
    return set().union(*(added for each, added in table.items() if each <= version))


def told() -> dict[str, Any]:
    return {
        "title": "A title",
        "description": "A description",
        "icons": ["https://example.com/icon.png"],
        "meta": {"com.example/key": 1},
    }


async def test_a_tool_is_described_in_the_words_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.tool(read_only=True, **told())
    def count(word: str) -> dict[str, int]:
        return {word: 1}

    async with client_for(server) as client:
        (tool,) = await client.list_tools()

    assert set(tool) == up_to(TOOL, mcp_version)


async def test_a_resource_is_described_in_the_words_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.resource("shop://hours", size=5, annotations={"priority": 0.5}, **told())
    def hours() -> str:
        return "always"

    @server.resource("shop://{day}/hours", annotations={"priority": 0.5}, **told())
    def hours_of(day: str) -> str:
        return day

    async with client_for(server) as client:
        (resource,) = await client.list_resources()
        (template,) = await client.list_resource_templates()

    assert set(resource) == up_to(RESOURCE, mcp_version)
    assert set(template) == up_to(RESOURCE, mcp_version) - {"uri", "size"} | {"uriTemplate"}


async def test_a_prompt_is_described_in_the_words_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.prompt(**told())
    def greet(name: str) -> str:
        return name

    async with client_for(server) as client:
        (prompt,) = await client.list_prompts()

    assert set(prompt) == up_to(PROMPT, mcp_version)


async def test_a_description_which_is_a_function_is_asked_every_time(
    client_for: ClientFor,
) -> None:
    server = Server("shop")
    said = iter(["now", "later"])
    server.tool(description=lambda: next(said))(nothing)

    async with client_for(server) as client:
        described = [(await client.list_tools())[0]["description"] for _ in range(2)]

    assert described == ["now", "later"]


async def test_a_component_which_took_the_place_of_another_is_listed_in_its_own_words(
    client_for: ClientFor,
) -> None:
    server = Server("shop")
    server.tool(name="it", description="the old one")(nothing)

    async with client_for(server) as client:
        await client.list_tools()
        server.replace(tool_component(nothing, name="it", description="the new one"))
        (listed,) = await client.list_tools()

    assert listed["description"] == "the new one"


async def test_lists_say_how_long_they_may_be_kept_where_the_revision_has_it(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(many(1, cache=CacheHint(ttl_ms=500, scope="public"))) as client:
        pages = [await client.request(method) for method in LISTS]

    hints = [{name: page.get(name) for name in ("ttlMs", "cacheScope")} for page in pages]
    expected = (
        {"ttlMs": 500, "cacheScope": "public"}
        if mcp_version == "2026-07-28"
        else {"ttlMs": None, "cacheScope": None}
    )
    assert hints == [expected] * 4


@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
async def test_all_pages_of_a_list_are_for_the_same_readers(client_for: ClientFor) -> None:
    pages = []

    async with client_for(many(5, page_size=2, cache=CacheHint(9, "public"))) as client:
        page = await client.request("tools/list")
        pages.append(page)
        while "nextCursor" in page:
            page = await client.request("tools/list", {"cursor": page["nextCursor"]})
            pages.append(page)

    assert [(page["ttlMs"], page["cacheScope"]) for page in pages] == [(9, "public")] * 3


async def test_names_which_differ_in_case_are_two(client_for: ClientFor) -> None:
    server = Server("shop")
    server.tool(name="Find")(lambda: "one")
    server.tool(name="find")(lambda: "other")

    async with client_for(server) as client:
        listed = [tool["name"] for tool in await client.list_tools()]
        found = [(await client.call_tool(name))["content"][0]["text"] for name in ("find", "Find")]
        await refusal(client.call_tool("FIND"))

    assert (listed, found) == (["Find", "find"], ["other", "one"])


@pytest.mark.parametrize("name", ["a", "Z9", "a.b-c_d", "_", "1", "x" * 128])
async def test_a_name_is_of_letters_digits_and_three_signs(
    client_for: ClientFor, name: str
) -> None:
    server = Server("shop")
    server.tool(name=name)(nothing)

    async with client_for(server) as client:
        assert names(await client.list_tools()) == [name]


@pytest.mark.parametrize("name", ["x" * 129, "a b", "a,b", "a/b", "ä", "a\n", "a:b", "a@b"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        Server("shop").tool(name=name)(nothing)


def test_a_name_is_given_once_and_who_gives_it_again_is_told_where() -> None:
    server = Server("shop")
    server.tool(name="find")(nothing)
    server.prompt(name="find")(nothing)

    with pytest.raises(ConfigurationError, match="'find' is registered twice") as refused:
        server.tool(name="find")(lambda: None)

    assert str(refused.value).count(f"{__name__}:") == 2


async def test_lists_are_private_and_stale_at_once_unless_somebody_says_otherwise() -> None:
    async with Client(many(1)) as client:
        page = await client.request("tools/list")

    assert (page["ttlMs"], page["cacheScope"]) == (0, "private")


SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_a_session_may_choose_how_much_is_on_a_page(client_for: ClientFor) -> None:
    server = many(4)

    @server.tool
    def few(frame: Frame) -> Frame:
        return frame.put_pagination_limit(1)

    async with client_for(server) as client:
        await client.call_tool("few")
        page = await client.request("tools/list")

    assert len(page["tools"]) == 1


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_what_one_session_is_offered_no_other_sees(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def register(description: str, frame: Frame) -> Frame:
        return frame.register_tool("own", description=description)

    async with client_for(server) as one, client_for(server) as other:
        await one.call_tool("register", {"description": "of one"})
        await other.call_tool("register", {"description": "of another"})
        described = [(await client.list_tools())[0]["description"] for client in (one, other)]
        async with client_for(server) as third:
            listed = names(await third.list_tools())

    assert described == ["of one", "of another"]
    assert listed == ["register"]


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_what_a_session_registers_shadows_what_the_server_declares(
    client_for: ClientFor,
) -> None:
    server = Server("shop")
    server.tool(name="it", description="declared")(nothing)

    @server.tool
    def register(frame: Frame) -> Frame:
        return frame.register_tool("it", description="registered")

    async with client_for(server) as client:
        before = await client.list_tools()
        await client.call_tool("register")
        after = await client.list_tools()

    assert [tool["description"] for tool in before] == ["declared", ""]
    assert [tool["description"] for tool in after] == ["registered", ""]
