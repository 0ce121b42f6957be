# shop/tests.py
from django.test import TransactionTestCase
from shop.models import Product

from django_mcp.testing import Client


class StockTests(TransactionTestCase):
    def setUp(self):
        Product.objects.create(name="Teapot", price="24.00", stock=3)

    async def test_clients_without_tasks_have_the_result(self):
        async with Client(capabilities={}) as client:
            result = await client.call_tool("count_stock")
            self.assertEqual(result.structured, 3)
            self.assertIn("call_status", [tool["name"] for tool in await client.list_tools()])
