# shop/tests.py
from django.test import TestCase

from django_mcp.testing import ErrorResponse, SyncClient


class MissingTokenTests(TestCase):
    def test_missing_token_is_rejected(self):
        with self.assertRaises(ErrorResponse) as caught, SyncClient(transport="http") as client:
            client.list_tools()
        self.assertEqual(caught.exception.status, 401)
