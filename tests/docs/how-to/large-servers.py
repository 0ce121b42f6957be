# shop/tests.py
from django.contrib.auth.models import User
from django.test import SimpleTestCase, TestCase

from django_mcp.testing import ErrorResponse, SyncClient


class GroupTests(TestCase):
    def test_read_only_connection_cannot_cancel(self):
        query = "groups=orders&read_only=1"
        staff = User.objects.create_user("ann", is_staff=True)
        with SyncClient(transport="http", query=query, user=staff) as client:
            assert [tool["name"] for tool in client.list_tools()] == ["list_orders"]
            with self.assertRaisesMessage(ErrorResponse, "Unknown tool: cancel_order"):
                client.call_tool("cancel_order", {"number": 7})


class SearchTests(SimpleTestCase):
    def test_tool_is_found_and_called(self):
        with SyncClient("office", user=User(pk=7, username="ann")) as client:
            names = [tool["name"] for tool in client.list_tools()]
            assert names == ["call_tool", "find_tools", "today"]
            result = client.call_tool("find_tools", {"query": "take a holiday"})
            (tool,) = result.structured["tools"]
            assert tool["name"] == "request_leave"
            arguments = {"first_day": "2026-08-03", "days": 10}
            call = {"name": "request_leave", "arguments": arguments}
            assert client.call_tool("call_tool", call).text == "10 days from 2026-08-03"
