"""Components registered at run time, in a session or on a server: listed, notified, removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Frame, McpError, Server
from django_mcp.pubsub import announcements
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec
from tests.wire.asgi import AsgiClient

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)
TOOLS, RESOURCES, PROMPTS = (
    f"notifications/{category}/list_changed" for category in ("tools", "resources", "prompts")
)


@pytest.fixture(autouse=True)
def _notifications_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send each notification at once, also if it repeats one of the last moment."""
    monkeypatch.setattr(announcements, "MERGE_INTERVAL", 0.0)


def add(params: dict[str, int]) -> int:
    """A handler that every worker can import."""
    return params["a"] + params["b"]


NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def shop(name: str = "shop", **options: Any) -> Server:
    """A server with a component of each kind, whose tools register more."""
    server = Server(name, **{"notify_lists_on_initialize": False, **options})
    server.register_prompt("declared", handler)
    server.register_resource("declared://one", handler)

    @server.tool
    def register(frame: Frame, names: list[str]) -> Frame:
        for name in names:
            frame = frame.register_tool(name, handler=add, input_schema=NUMBERS)
        return frame

    @server.tool
    def register_all(frame: Frame) -> Any:
        frame = (
            frame.register_tool("own", handler=handler)
            .register_tool("own_too", handler=handler)
            .register_resource("own://one", handler=handler)
            .register_resource_template("own://{which}", name="some", handler=reader)
            .register_prompt("own", handler=handler)
        )
        return "Registered", frame

    @server.tool
    def clear(frame: Frame) -> Frame:
        return frame.clear_components()

    @server.tool
    def clear_session(frame: Frame) -> Frame:
        return frame.clear_session()

    @server.tool
    def count(frame: Frame) -> int:
        return len(frame.get_components())

    @server.tool
    def fail(frame: Frame) -> Frame:
        frame.register_tool("own", handler=handler)
        raise McpError("No")

    @server.tool
    def refuse(frame: Frame) -> Any:
        return McpError("No, and yet"), frame.register_tool("own", handler=handler)

    return server


def handler() -> str:
    """A handler that every worker can import."""
    return "handled"


def reader(uri: str) -> str:
    """A handler for any URI."""
    return "handled"


DECLARED = ["clear", "clear_session", "count", "fail", "refuse", "register", "register_all"]


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in listed]


async def changes(client: Client) -> list[str]:
    """The notifications received since the last call, once all pending work is done."""
    await client.request("ping")
    methods = [each["method"] for each in client.notifications]
    client.notifications.clear()
    return [method for method in methods if method.endswith("list_changed")]


class TestSessionComponents:
    @in_sessions
    async def test_session_tools_are_listed_sorted_with_declared_tools_and_callable(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(shop()) as client:
            await client.call_tool("register", {"names": ["zeta", "alpha"]})
            listed = names(await client.list_tools())
            sum_ = await client.call_tool("alpha", {"a": 1, "b": 2})
            wrong = await client.call_tool("alpha", {"a": 1})

        assert listed == sorted([*DECLARED, "zeta", "alpha"])
        assert sum_.text == "3"
        assert wrong["isError"] is True

    @in_sessions
    async def test_every_kind_of_session_component_can_be_used(self, client_for: ClientFor) -> None:
        async with client_for(shop()) as client:
            await client.call_tool("register_all")
            called = await client.call_tool("own")
            read = await client.read_resource("own://one")
            through = await client.read_resource("own://another")
            got = await client.get_prompt("own")
            counted = await client.call_tool("count")

        assert called.text == "handled"
        assert read.text == through.text == "handled"
        assert got.text == "handled"
        assert counted.text == "5"

    @in_sessions
    async def test_session_tools_are_sorted_into_pages(self, client_for: ClientFor) -> None:
        async with client_for(shop(page_size=3)) as client:
            await client.call_tool("register", {"names": ["aa", "zz"]})
            page = await client.request("tools/list")
            pages = [names(page["tools"])]
            while "nextCursor" in page:
                page = await client.request("tools/list", {"cursor": page["nextCursor"]})
                pages.append(names(page["tools"]))

        assert [len(page) for page in pages] == [3, 3, 3]
        assert sum(pages, []) == sorted([*DECLARED, "aa", "zz"])

    @in_sessions
    async def test_session_tool_is_hidden_without_its_scopes(self, client_for: ClientFor) -> None:
        server = Server("guarded")

        @server.tool
        def register(frame: Frame) -> Frame:
            return frame.register_tool(
                "secret", handler=handler, scopes=["secrets"], when_denied="hidden"
            )

        async with client_for(server, scopes=["none"]) as one:
            await one.call_tool("register")
            hidden = names(await one.list_tools())
            error = await error_of(one.call_tool("secret"))
        async with client_for(server, scopes=["secrets"]) as other:
            await other.call_tool("register")
            seen = names(await other.list_tools())

        assert (hidden, seen) == (["register"], ["register", "secret"])
        assert error.code == -32602

    @in_sessions
    async def test_session_tool_with_scopes_is_challenged(self, client_for: ClientFor) -> None:
        server = Server("guarded")

        @server.tool
        def register(frame: Frame) -> Frame:
            return frame.register_tool("secret", handler=handler, scopes=["secrets"])

        async with client_for(server, scopes=["none"]) as client:
            await client.call_tool("register")
            assert names(await client.list_tools()) == ["register", "secret"]
            error = await error_of(client.call_tool("secret"))

        assert error.data == {"scopes": ["secrets"]}

    @in_sessions
    async def test_cleared_session_components_are_not_listed(self, client_for: ClientFor) -> None:
        async with client_for(shop()) as client:
            for clear in ("clear", "clear_session"):
                await client.call_tool("register_all")
                await client.call_tool(clear)
                assert names(await client.list_tools()) == DECLARED
                assert (await client.list_resource_templates()) == []

    @in_sessions
    async def test_session_components_are_not_listed_in_a_new_session(
        self, client_for: ClientFor
    ) -> None:
        server = shop()
        async with client_for(server) as client:
            await client.call_tool("register_all")
        async with client_for(server) as client:
            assert names(await client.list_tools()) == DECLARED

    @in_sessions
    async def test_registration_is_stored_with_a_returned_but_not_with_a_raised_error(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(shop()) as client:
            await error_of(client.call_tool("fail"))
            after_raising = names(await client.list_tools())
            await error_of(client.call_tool("refuse"))
            after_returning = names(await client.list_tools())

        assert after_raising == DECLARED
        assert after_returning == sorted([*DECLARED, "own"])

    @spec("2026/TOOL-02")
    async def test_components_registered_in_a_stateless_call_are_discarded(self) -> None:
        async with Client(shop()) as client:
            await client.call_tool("register_all")
            assert names(await client.list_tools()) == DECLARED


# Transports on which the client needs no separate stream.
@pytest.mark.parametrize("mcp_transport", ["memory", "stdio"])
class TestListChangedNotifications:
    """The client receives one notification for each changed list, after the commit."""

    @in_sessions
    async def test_one_list_changed_notification_is_sent_per_changed_list(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(shop()) as client:
            await client.call_tool("register", {"names": ["a", "b", "c"]})
            assert await changes(client) == [TOOLS]
            await client.call_tool("register_all")
            assert await changes(client) == [TOOLS, RESOURCES, PROMPTS]
            await client.call_tool("clear")
            assert await changes(client) == [TOOLS, RESOURCES, PROMPTS]

    @in_sessions
    async def test_list_changed_is_not_sent_when_nothing_changed(
        self, client_for: ClientFor
    ) -> None:
        async with client_for(shop()) as client:
            await client.call_tool("clear")
            assert await changes(client) == []
            await client.call_tool("register_all")
            await changes(client)
            await client.call_tool("register_all")
            await client.call_tool("count")
            await error_of(client.call_tool("fail"))
            assert await changes(client) == []

    @in_sessions
    async def test_list_changed_is_not_sent_for_undeclared_capabilities(
        self, client_for: ClientFor
    ) -> None:
        server = Server("tools-only", notify_lists_on_initialize=False)

        @server.tool
        def register(frame: Frame) -> Frame:
            return frame.register_tool("own").register_prompt("own").register_resource("own://a")

        async with client_for(server) as client:
            await client.call_tool("register")
            assert await changes(client) == [TOOLS]

    @in_sessions
    async def test_list_changed_of_a_session_is_not_sent_to_other_sessions(
        self, client_for: ClientFor
    ) -> None:
        server = shop()
        async with client_for(server) as one, client_for(server) as other:
            await one.call_tool("register_all")
            assert await changes(other) == []

    @in_sessions
    async def test_notify_lists_on_initialize_sends_one_notification_per_list(
        self, client_for: ClientFor
    ) -> None:
        server = shop(notify_lists_on_initialize=True)

        @server.hook
        def init(client_info: Any, frame: Frame) -> Frame:
            return frame.register_tool("a").register_tool("b").register_prompt("c")

        async with client_for(server) as client:
            if client.connection.name == "stdio":
                assert await changes(client) == [TOOLS, RESOURCES, PROMPTS]

    @in_sessions
    async def test_components_registered_by_init_send_list_changed(
        self, client_for: ClientFor
    ) -> None:
        server = shop()

        @server.hook
        def init(client_info: Any, frame: Frame) -> Frame:
            return frame.register_tool("a").register_tool("b").register_prompt("c")

        async with client_for(server) as client:
            assert await changes(client) == [TOOLS, PROMPTS]


@pytest.mark.parametrize("version", SESSIONS)
async def test_list_changed_is_sent_on_the_http_get_stream(version: str) -> None:
    peer = AsgiClient(shop(), version)
    await peer.initialize()

    async with peer.stream() as stream:
        await peer.post(peer.call("register_all"))
        assert await stream.methods(3) == [TOOLS, RESOURCES, PROMPTS]
        await peer.post(peer.call("register", names=["one"]))
        await peer.post(peer.call("clear"))
        assert await stream.methods(4) == [TOOLS, TOOLS, RESOURCES, PROMPTS]


class TestServerComponents:
    async def test_registered_server_components_are_listed_and_callable(
        self, client_for: ClientFor
    ) -> None:
        server = Server("shop", notify_lists_on_initialize=False)

        async with client_for(server) as client:
            server.register_tool("add", add, input_schema=NUMBERS)
            server.register_prompt("say", "tests.core.frame.test_runtime_components.handler")
            server.register_resource("a://one", handler, title="One")
            server.register_resource("a://{which}", name="which", description="By template")
            server.register_resource_template("b://{which}", reader, name="b")
            listed = [
                names(await client.list_tools()),
                names(await client.list_prompts()),
                names(await client.list_resources()),
                names(await client.list_resource_templates()),
            ]
            called = await client.call_tool("add", {"a": 2, "b": 3})
            read = await client.read_resource("b://anything")

        assert listed == [["add"], ["say"], ["handler"], ["b", "which"]]
        assert called.text == "5"
        assert read.text == "handled"

    async def test_second_registration_of_a_name_replaces_the_first(
        self, client_for: ClientFor
    ) -> None:
        server = Server("shop")
        server.register_tool("it", handler, description="the old one")

        async with client_for(server) as client:
            server.register_tool("it", handler, description="the new one")
            (tool,) = await client.list_tools()

        assert tool["description"] == "the new one"

    async def test_unregistered_components_are_not_found_and_not_listed(
        self, client_for: ClientFor
    ) -> None:
        server = shop()
        server.register_resource("a://{which}", reader, name="which")

        async with client_for(server) as client:
            unregistered = [
                server.unregister_tool("count"),
                server.unregister_prompt("declared"),
                server.unregister_resource("declared://one"),
                server.unregister_resource("a://{which}"),
            ]
            again = [
                server.unregister_tool("count"),
                server.unregister_prompt("declared"),
                server.unregister_resource("declared://one"),
                server.unregister_resource_template("a://{which}"),
            ]
            error = await error_of(client.call_tool("count"))
            left = [await client.list_prompts(), await client.list_resources()]

        assert (unregistered, again) == ([True] * 4, [False] * 4)
        assert error.code == -32602
        assert left == [[], []]

    async def test_tool_registered_during_a_list_request_is_listed_by_the_next_one(self) -> None:
        server = Server("shop")

        async def guard(frame: Frame) -> bool:
            server.register_tool("z_late", handler)
            await asyncio.sleep(0)
            return True

        for name in ("a", "b"):
            server.register_tool(name, handler, permission=guard)
        async with Client(server) as client:
            assert names(await client.list_tools()) == ["a", "b"]
            assert names(await client.list_tools()) == ["a", "b", "z_late"]

    @in_sessions
    async def test_list_changed_is_sent_only_when_listed_fields_change(
        self, mcp_version: str
    ) -> None:
        # Notifications use the name of the server, which other tests share.
        server = shop("changing")
        async with Client(server, version=mcp_version, transport="stdio") as client:
            assert await self.received(client) == []
            server.register_tool("new", handler)
            assert await self.received(client) == [TOOLS]
            server.register_tool("new", handler)
            server.register_tool("new", lambda: "another handler", description=handler.__doc__)
            server.unregister_tool("unknown")
            assert await self.received(client) == []
            server.register_tool("new", handler, description="Now described differently")
            assert await self.received(client) == [TOOLS]
            server.unregister_tool("new")
            server.register_resource_template("t://{a}", reader, name="t")
            server.unregister_prompt("declared")
            assert sorted(await self.received(client)) == sorted([TOOLS, RESOURCES, PROMPTS])

    async def received(self, client: Client) -> list[str]:
        """The notifications received, once all pending work is done."""
        for _ in range(20):
            await asyncio.sleep(0)
        return await changes(client)

    def test_component_can_be_registered_and_unregistered_before_any_connection(self) -> None:
        server = Server("shop")
        server.register_tool("it", handler)
        server.unregister_tool("it")

        assert list(server.components.all()) == []
