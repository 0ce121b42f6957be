"""The test client in Django's TestCase: handlers read the rows of the test."""

from __future__ import annotations

from typing import ClassVar, get_args

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser
from django.test import TestCase, TransactionTestCase

from django_mcp import Frame, Server
from django_mcp.testing import Client, SyncClient
from django_mcp.testing.client import Transport
from tests.waiting import SECONDS


def library() -> Server:
    server = Server("library")

    @server.tool
    def groups() -> int:
        return Group.objects.count()

    @server.tool
    async def agroups() -> int:
        return await Group.objects.acount()

    @server.tool
    def found(name: str, frame: Frame) -> tuple[str, Frame]:
        group = Group.objects.create(name=name)
        return group.name, frame.assign("founded", group.pk)

    @server.tool(permission="auth.view_group")
    def secret(frame: Frame) -> str:
        return str(frame.user)

    @server.tool
    def visits(frame: Frame) -> int:
        frame.session["visits"] = frame.session.get("visits", 0) + 1
        frame.session.save()
        return int(frame.session["visits"])

    return server


class QueryTests(TestCase):
    """The number of queries, of handlers of each kind."""

    def test_queries_of_a_call_are_counted_on_every_transport(self) -> None:
        for transport in ("memory", "http"):
            for tool in ("groups", "agroups"):
                with SyncClient(library(), transport=transport) as client, self.subTest(transport):
                    client.list_tools()
                    result = client.call(tool).assert_num_queries(1)
                    assert "auth_group" in result.queries[0]
                    with self.assertRaisesRegex(AssertionError, "1 queries were made instead of 2"):
                        result.assert_num_queries(2)

    def test_queries_of_the_test_and_of_other_calls_do_not_count(self) -> None:
        with SyncClient(library()) as client:
            first = client.call("groups")
            assert Group.objects.count() == 0
            client.call("unknown").assert_error().assert_num_queries(0)
            first.assert_num_queries(1)


class SynchronousTests(TestCase):
    """Synchronous tests with SyncClient."""

    server: ClassVar[Server]
    member: ClassVar[User]
    stranger: ClassVar[User]

    @classmethod
    def setUpTestData(cls) -> None:
        cls.server = library()
        cls.member = User.objects.create_user("member")
        cls.member.user_permissions.add(Permission.objects.get(codename="view_group"))
        cls.stranger = User.objects.create_user("stranger")
        Group.objects.create(name="readers")

    def test_handlers_read_rows_written_by_the_test(self) -> None:
        for transport in ("memory", "http"):
            with SyncClient(self.server, transport=transport) as client:
                assert client.call_tool("groups").text == "1"
                assert client.call_tool("agroups").text == "1"

    def test_rows_written_by_handlers_are_visible_to_the_test(self) -> None:
        for transport in ("memory", "http"):
            for version in ("2025-11-25", "2026-07-28"):
                with SyncClient(self.server, transport=transport, version=version) as client:
                    client.call_tool("found", {"name": f"{transport} {version}"})

        assert Group.objects.count() == 5

    def test_rows_written_by_handlers_are_rolled_back_after_the_test(self) -> None:
        assert Group.objects.count() == 1

    def test_permissions_of_the_given_user_apply(self) -> None:
        for transport in ("memory", "http"):
            with SyncClient(self.server, transport=transport, user=self.member) as client:
                assert client.call_tool("secret").text == "member"
            with SyncClient(self.server, transport=transport, user=self.stranger) as client:
                assert "secret" not in [tool["name"] for tool in client.list_tools()]

    def test_session_cookie_of_a_browser_authenticates_the_client(self) -> None:
        browser = Browser()
        browser.force_login(self.member)
        cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}

        with SyncClient(self.server, transport="http", headers=cookie) as client:
            assert client.call_tool("secret").text == "member"
            assert client.call_tool("visits").text == "1"
            assert client.call_tool("visits").text == "2"

        assert browser.session["visits"] == 2

    def test_given_django_session_is_used_by_handlers(self) -> None:
        session = Browser().session

        with SyncClient(self.server, session=session) as client:
            client.call_tool("visits")

        assert session["visits"] == 1


class AsynchronousTests(TestCase):
    """Asynchronous tests with Client."""

    async def test_handlers_read_rows_written_by_the_test(self) -> None:
        await Group.objects.acreate(name="readers")

        async with Client(library()) as client:
            assert (await client.call_tool("groups")).text == "1"
            assert (await client.call_tool("agroups")).text == "1"

    async def test_handlers_over_stdio_share_the_transaction_of_the_test(self) -> None:
        await Group.objects.acreate(name="readers")

        async with Client(library(), transport="stdio", version="2025-06-18") as client:
            assert (await client.call_tool("groups")).text == "1"
            assert (await client.call_tool("found", {"name": "writers"})).text == "writers"

        assert await Group.objects.acount() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tool", ["groups", "agroups"])
@pytest.mark.parametrize("transport", get_args(Transport))
async def test_queries_of_an_async_test_are_counted_on_other_threads(
    tool: str, transport: Transport
) -> None:
    client = Client(library(), transport=transport, sync_execution="threads")
    async with client:
        await client.list_tools()
        (await client.call(tool)).assert_num_queries(1)


class SavedResourceTests(TransactionTestCase):
    """A tool saves an object whose resource has subscribers."""

    def test_notification_of_a_saved_object_does_not_wait_for_the_thread_of_the_handler(
        self,
    ) -> None:
        server = Server("library")

        @server.resource("group://{pk}", model=Group)
        def group(pk: int) -> str:
            return Group.objects.get(pk=pk).name

        @server.tool
        def found(name: str) -> str:
            return Group.objects.create(name=name).name

        database = {"BACKEND": "django_mcp.stores.database.DatabaseEventStore"}
        sessions = {"BACKEND": "django_mcp.stores.database.DatabaseSessionStore"}
        ours = {**settings.DJANGO_MCP, "STORES": {"events": database, "sessions": sessions}}
        with self.settings(DJANGO_MCP=ours), SyncClient(server, timeout=SECONDS) as client:
            assert client.call("found", name="readers").text == "readers"
