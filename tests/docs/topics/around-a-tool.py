# shop/tests.py
from django.test import TestCase
from shop.mcp import office

from django_mcp.testing import SyncClient


class AroundCallTests(TestCase):
    def test_author_is_the_caller(self):
        with SyncClient(office) as client:
            self.assertEqual(client.call_tool("author").text, "AnonymousUser")
