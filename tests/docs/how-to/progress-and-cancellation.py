# shop/tests.py
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient


class ProgressTests(TestCase):
    def test_progress_is_reported_per_product(self):
        Product.objects.create(name="Biscuits", price="2.10")
        Product.objects.create(name="Teapot", price="24.00")
        with SyncClient() as client:
            client.call_tool("check_prices")
        self.assertEqual([each["progress"] for each in client.progress], [1, 2])
        self.assertEqual(client.logs[0]["data"], "Biscuits costs only 2.10")
