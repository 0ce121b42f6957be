# shop/tests.py
from django.test import TestCase

from django_mcp.testing import SyncClient


class PermissionTests(TestCase):
    def test_anonymous_user_cannot_use_protected_components(self):
        with SyncClient() as client:
            client.assert_tool_visible("in_stock")
            client.assert_tool_hidden("discontinue")
