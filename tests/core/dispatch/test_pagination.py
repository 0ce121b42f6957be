"""Lists: their order, the fields of each revision, and pagination."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import CacheHint, ConfigurationError, Frame, Server
from django_mcp.core.components.tool import tool_component
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def nothing() -> None:
    """Does nothing."""


def many(count: int, **options: Any) -> Server:
    """A server with this number of components of each kind."""
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


@spec("TOOL-02", "2026/TOOL-03")
async def test_list_is_sorted_by_order_and_then_by_name(client_for: ClientFor) -> None:
    server = Server("shop")
    for name, order in [("b", 0), ("z", -1), ("a", 0), ("first", -10), ("last", 5)]:
        server.tool(name=name, order=order)(nothing)

    async with client_for(server) as client:
        listed = await client.list_tools()

    assert names(listed) == ["first", "z", "a", "b", "last"]


@spec("TOOL-02", "RES-02", "PROMPT-02", "PAGE-01", "PAGE-03")
async def test_every_page_but_the_last_has_a_next_cursor(
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


@spec("PAGE-02", "2026/PAG-02")
async def test_full_last_page_has_no_next_cursor(client_for: ClientFor) -> None:
    async with client_for(many(4, page_size=2)) as client:
        first = await client.request("tools/list")
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})

    assert "nextCursor" not in second


def test_page_without_entries_cannot_be_declared() -> None:
    with pytest.raises(ConfigurationError, match="page_size of the Server 'many' is 0"):
        many(4, page_size=0)


@spec("PAGE-04", "2026/PAG-01")
async def test_cursor_remains_valid_after_components_change(
    client_for: ClientFor,
) -> None:
    server = many(4, page_size=2)

    async with client_for(server) as client:
        first = await client.request("tools/list")
        server.components.remove("tool", "tool_1")
        server.tool(name="tool_0a")(nothing)
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})

    assert names(first["tools"]) == ["tool_0", "tool_1"]
    assert names(second["tools"]) == ["tool_2", "tool_3"]


@spec("PAGE-05", "2026/PAG-01", "2026/PAG-02")
@pytest.mark.parametrize("cursor", ["", "forged", 7, None, {}, "x" * 5000])
async def test_forged_or_malformed_cursor_is_rejected(client_for: ClientFor, cursor: Any) -> None:
    async with client_for(many(1)) as client:
        error = await error_of(client.request("tools/list", {"cursor": cursor}))
        assert names(await client.list_tools()) == ["tool_0"]

    assert (error.code, error.message) == (-32602, "Invalid cursor")


@spec("PAGE-06")
async def test_cursor_of_another_list_is_rejected(client_for: ClientFor) -> None:
    async with client_for(many(2, page_size=1)) as client:
        cursor = (await client.request("tools/list"))["nextCursor"]
        error = await error_of(client.request("prompts/list", {"cursor": cursor}))

    assert error.code == -32602


@spec("2026/PAG-03")
async def test_cursor_of_another_server_is_rejected(client_for: ClientFor) -> None:
    other = Server("other", page_size=1)
    other.tool(name="a")(nothing)
    other.tool(name="b")(nothing)

    async with client_for(many(2, page_size=1)) as client, client_for(other) as another:
        cursor = (await client.request("tools/list"))["nextCursor"]
        error = await error_of(another.request("tools/list", {"cursor": cursor}))

    assert error.code == -32602


@spec("LIFE-20", "TOOL-01", "PROMPT-11", "2026/DSC-03")
async def test_empty_server_declares_only_logging_and_rejects_list_methods(
    client_for: ClientFor,
) -> None:
    async with client_for(Server("empty")) as client:
        errors = [await error_of(client.request(method)) for method in LISTS]
        welcome = client.initialize_result or await client.request("server/discover")

    assert {error.code for error in errors} == {-32601}
    assert set(welcome["capabilities"]) == {"logging"}


@spec("2026/TOOL-02", "2026/RES-02", "2026/PRM-02")
async def test_declared_capability_without_components_returns_an_empty_list(
    client_for: ClientFor,
) -> None:
    server = Server("empty", capabilities={"tools": {}, "resources": {}, "prompts": {}})

    async with client_for(server) as client:
        listed = [(await client.request(method))[member] for method, member in LISTS.items()]

    assert listed == [[], [], [], []]


async def test_methods_of_a_removed_capability_return_method_not_found(
    client_for: ClientFor,
) -> None:
    server = Server("shop", capabilities={"tools": None})
    server.tool(name="hidden")(lambda: None)

    async with client_for(server) as client:
        errors = [await error_of(client.list_tools()), await error_of(client.call_tool("hidden"))]

    assert {error.code for error in errors} == {-32601}


TOOL_FIELDS: dict[str, set[str]] = {
    "2024-11-05": {"name", "description", "inputSchema"},
    "2025-03-26": {"annotations"},
    "2025-06-18": {"title", "outputSchema", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}
RESOURCE_FIELDS: dict[str, set[str]] = {
    "2024-11-05": {"uri", "name", "description", "mimeType", "size", "annotations"},
    "2025-03-26": set(),
    "2025-06-18": {"title", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}
PROMPT_FIELDS: dict[str, set[str]] = {
    "2024-11-05": {"name", "description", "arguments"},
    "2025-03-26": set(),
    "2025-06-18": {"title", "_meta"},
    "2025-11-25": {"icons"},
    "2026-07-28": set(),
}


def fields_up_to(table: dict[str, set[str]], version: str) -> set[str]:
    """Fields that a revision and its predecessors have added."""
    return set().union(*(added for each, added in table.items() if each <= version))


def common_options() -> dict[str, Any]:
    return {
        "title": "A title",
        "description": "A description",
        "icons": ["https://example.com/icon.png"],
        "meta": {"com.example/key": 1},
    }


@spec("ICON-02", "TOOL-04", "TOOL-13", "TOOL-35")
async def test_listed_tool_has_exactly_the_fields_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.tool(read_only=True, **common_options())
    def count(word: str) -> dict[str, int]:
        return {word: 1}

    async with client_for(server) as client:
        (tool,) = await client.list_tools()

    assert set(tool) == fields_up_to(TOOL_FIELDS, mcp_version)


@spec("RES-08", "2026/RES-10")
async def test_listed_resource_has_exactly_the_fields_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    @server.resource("shop://hours", size=5, annotations={"priority": 0.5}, **common_options())
    def hours() -> str:
        return "always"

    @server.resource("shop://{day}/hours", annotations={"priority": 0.5}, **common_options())
    def hours_of(day: str) -> str:
        return day

    async with client_for(server) as client:
        (resource,) = await client.list_resources()
        (template,) = await client.list_resource_templates()

    assert set(resource) == fields_up_to(RESOURCE_FIELDS, mcp_version)
    assert set(template) == fields_up_to(RESOURCE_FIELDS, mcp_version) - {"uri", "size"} | {
        "uriTemplate"
    }


@spec("ICON-02", "PROMPT-02")
async def test_listed_prompt_has_exactly_the_fields_of_the_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")

    argument = {"name": "name", "title": "Name", "description": "Whom", "required": True}

    @server.prompt(arguments=[argument], **common_options())
    def greet(arguments: Any) -> str:
        return ""

    async with client_for(server) as client:
        (prompt,) = await client.list_prompts()

    assert set(prompt) == fields_up_to(PROMPT_FIELDS, mcp_version)
    if mcp_version < "2025-06-18":
        del argument["title"]
    assert prompt["arguments"] == [argument]


@spec("TOOL-04")
async def test_boolean_property_schemas_are_listed_only_in_2026_07_28(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop")
    schema = {"type": "object", "properties": {"any": True, "none": False}}
    server.tool(name="take", input_schema=schema)(lambda arguments: "")

    async with client_for(server) as client:
        (tool,) = await client.list_tools()
        answer = await client.call_tool("take", {"any": 1})

    objects: dict[str, Any] = {"any": {}, "none": {"not": {}}}
    listed = schema["properties"] if mcp_version == "2026-07-28" else objects
    assert tool["inputSchema"]["properties"] == listed
    assert not answer.get("isError")


@spec("RES-08", "PROMPT-02", "2026/TOOL-06")
@pytest.mark.every_combination
async def test_descriptions_are_listed_in_every_revision(client_for: ClientFor) -> None:
    server = Server("shop")
    server.tool(description="A tool")(nothing)
    server.prompt(description="A prompt")(nothing)
    server.resource("shop://hours", description="A resource")(nothing)

    @server.resource("shop://{day}/hours", description="A template")
    def hours_of(day: str) -> str:
        return day

    async with client_for(server) as client:
        listed = [(await client.request(method))[member] for method, member in LISTS.items()]

    described = [entry["description"] for entries in listed for entry in entries]
    assert described == ["A tool", "A resource", "A template", "A prompt"]


async def test_callable_description_is_evaluated_for_each_list_request(
    client_for: ClientFor,
) -> None:
    server = Server("shop")
    descriptions = iter(["now", "later"])
    server.tool(description=lambda: next(descriptions))(nothing)

    async with client_for(server) as client:
        described = [(await client.list_tools())[0]["description"] for _ in range(2)]

    assert described == ["now", "later"]


async def test_replaced_component_is_listed_with_its_new_description(
    client_for: ClientFor,
) -> None:
    server = Server("shop")
    server.tool(name="it", description="the old one")(nothing)

    async with client_for(server) as client:
        await client.list_tools()
        server.components.replace(tool_component(nothing, name="it", description="the new one"))
        (listed,) = await client.list_tools()

    assert listed["description"] == "the new one"


@spec("2026/CCH-01")
async def test_lists_contain_cache_hints_only_in_2026_07_28(
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


@spec("2026/CCH-03")
@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
async def test_all_pages_of_a_list_have_the_same_cache_hint(client_for: ClientFor) -> None:
    pages = []

    async with client_for(many(5, page_size=2, cache=CacheHint(9, "public"))) as client:
        page = await client.request("tools/list")
        pages.append(page)
        while "nextCursor" in page:
            page = await client.request("tools/list", {"cursor": page["nextCursor"]})
            pages.append(page)

    assert [(page["ttlMs"], page["cacheScope"]) for page in pages] == [(9, "public")] * 3


@spec("2026/CCH-01")
async def test_list_that_depends_on_its_caller_is_private(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = many(1, cache=CacheHint(9, "public"))
    server.tool(name="restricted", permission=lambda frame: True)(nothing)

    async with client_for(server) as client:
        pages = [await client.request(method) for method in ("tools/list", "prompts/list")]

    scopes = [page.get("cacheScope") for page in pages]
    is_newest = mcp_version == "2026-07-28"
    assert scopes == (["private", "public"] if is_newest else [None, None])


@spec("TOOL-08")
async def test_component_names_are_case_sensitive(client_for: ClientFor) -> None:
    server = Server("shop")
    server.tool(name="Find")(lambda: "one")
    server.tool(name="find")(lambda: "other")

    async with client_for(server) as client:
        listed = [tool["name"] for tool in await client.list_tools()]
        found = [(await client.call_tool(name)).text for name in ("find", "Find")]
        await error_of(client.call_tool("FIND"))

    assert (listed, found) == (["Find", "find"], ["other", "one"])


@spec("TOOL-07", "2026/TOOL-04")
@pytest.mark.parametrize("name", ["a", "Z9", "a.b-c_d", "_", "1", "x" * 128])
async def test_component_name_with_valid_characters_is_accepted(
    client_for: ClientFor, name: str
) -> None:
    server = Server("shop")
    server.tool(name=name)(nothing)

    async with client_for(server) as client:
        assert names(await client.list_tools()) == [name]


@spec("TOOL-07", "TOOL-09", "TOOL-10", "2026/TOOL-04")
@pytest.mark.parametrize("name", ["x" * 129, "a b", "a,b", "a/b", "ä", "a\n", "a:b", "a@b"])
def test_component_name_with_invalid_characters_or_length_is_rejected(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        Server("shop").tool(name=name)(nothing)


@spec("TOOL-11", "2026/TOOL-04")
def test_duplicate_name_is_rejected_with_both_source_locations() -> None:
    server = Server("shop")
    server.tool(name="find")(nothing)
    server.prompt(name="find")(nothing)

    with pytest.raises(ConfigurationError, match="'find' is registered twice") as caught:
        server.tool(name="find")(lambda: None)

    assert str(caught.value).count(f"{__name__}:") == 2


@spec("2026/CCH-02", "2026/CCH-04")
async def test_list_cache_hint_defaults_to_private_and_zero_ttl() -> None:
    async with Client(many(1)) as client:
        page = await client.request("tools/list")

    assert (page["ttlMs"], page["cacheScope"]) == (0, "private")


SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_session_pagination_limit_sets_the_page_size(client_for: ClientFor) -> None:
    server = many(4)

    @server.tool
    def few(frame: Frame) -> Frame:
        return frame.put_pagination_limit(1)

    async with client_for(server) as client:
        await client.call_tool("few")
        page = await client.request("tools/list")

    assert len(page["tools"]) == 1


@pytest.mark.parametrize("mcp_version", SESSIONS)
async def test_session_components_are_not_listed_in_other_sessions(client_for: ClientFor) -> None:
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
async def test_session_component_overrides_server_component_of_the_same_name(
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
