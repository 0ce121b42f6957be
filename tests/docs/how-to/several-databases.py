# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient


class DatabaseTests(TestCase):
    def test_last_piece_is_sold_once(self):
        product = Product.objects.create(name="Teapot", price="24.00", stock=1)
        user = get_user_model().objects.create_superuser("ann")
        with SyncClient(user=user) as client:
            self.assertEqual(client.call_tool("sell", {"pk": product.pk}).structured, 0)
            self.assertTrue(client.call_tool("sell", {"pk": product.pk}).is_error)
