# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient


class PermissionTests(TestCase):
    def setUp(self):
        self.pk = Product.objects.create(name="Teapot", price="24.00", stock=3).pk

    def test_anonymous_user_cannot_use_protected_components(self):
        with SyncClient() as client:
            client.assert_tool_visible("in_stock")
            client.assert_tool_hidden("discontinue")

    def test_customer_reserves_few_pieces(self):
        with SyncClient(user=get_user_model().objects.create_user("ann")) as client:
            self.assertFalse(client.call_tool("reserve", {"pk": self.pk, "count": 2}).is_error)
            self.assertTrue(client.call_tool("reserve", {"pk": self.pk, "count": 6}).is_error)
