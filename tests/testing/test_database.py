"""The test client in Django's TestCase: handlers read the rows of the test."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser
from django.test import TestCase

from django_mcp import Frame, Server
from django_mcp.testing import Client, SyncClient


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
