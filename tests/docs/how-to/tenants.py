# shop/tests.py
from django.test import TestCase, override_settings

from django_mcp.testing import SyncClient


@override_settings(ALLOWED_HOSTS=["acme.example.org"])
class TenantTests(TestCase):
    def test_tenant_is_that_of_the_host(self):
        headers = {"Host": "acme.example.org"}
        with SyncClient(transport="http", headers=headers) as client:
            self.assertEqual(client.call_tool("tenant").text, "acme acme")
