# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase
from shop.assistant import assistant
from shop.models import Product

from django_mcp.testing import ErrorResponse, SyncClient


class RouterTests(TestCase):
    def test_tools_are_those_of_include(self):
        with SyncClient(assistant) as client:
            names = {tool["name"] for tool in client.list_tools()}
        assert {"product_list", "product_partial_update", "product_sell"} <= names
        assert "product_destroy" not in names


class ToolTests(TestCase):
    def setUp(self):
        self.cup = Product.objects.create(name="Cup", price="7.00", stock=0)

    def test_the_result_is_that_of_the_api(self):
        with SyncClient() as client:
            result = client.call_tool("product_list", {"search": "cup", "ordering": "price"})
        response = self.client.get("/products/?search=cup&ordering=price")
        assert result.structured == response.json()

    def test_permissions_of_the_view_hold(self):
        arguments = {"id": self.cup.pk, "name": "Mug"}
        refused = self.assertRaisesRegex(ErrorResponse, "Authentication required")
        with SyncClient() as client, refused:
            client.call_tool("product_partial_update", arguments)
        with SyncClient(user=User.objects.create_user("bob")) as client:
            client.assert_tool_hidden("product_partial_update")

    def test_errors_are_explained(self):
        with SyncClient(user=User.objects.create_superuser("ada")) as client:
            invalid = client.call_tool("product_create", {"name": "Cup", "price": "a lot"})
            sold_out = client.call_tool("product_sell", {"id": self.cup.pk})
        assert invalid.text == "The request is invalid.\nprice: A valid number is required."
        assert sold_out.text.endswith("It is out of stock.")
