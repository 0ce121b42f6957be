# shop/tests.py
import json

from django.contrib.auth.models import User
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient, accept


class AdminToolTests(TestCase):
    def setUp(self):
        self.root = User.objects.create_superuser("root")
        self.teapot = Product.objects.create(name="Teapot", price="24.00", stock=3)
        Product.objects.create(name="Black tea", price="3.90", stock=0)

    def test_list_has_the_columns_of_the_admin(self):
        with SyncClient(user=self.root) as client:
            result = client.call("admin_search", model="shop.Product", text="black")
        (row,) = json.loads(result.text)["rows"]
        assert row["values"] == {"name": "Black tea", "price": "3.90", "is_sold_out": True}

    def test_change_keeps_other_fields(self):
        with SyncClient(user=self.root) as client:
            values = {"stock": 5}
            client.call("admin_change", model="shop.Product", pk=self.teapot.pk, values=values)
        self.teapot.refresh_from_db()
        assert (self.teapot.name, self.teapot.stock) == ("Teapot", 5)

    def test_others_do_not_see_the_tools(self):
        with SyncClient(user=User.objects.create_user("ann")) as client:
            client.assert_tool_hidden("admin_search")


class TwoStepTests(AdminToolTests):
    def test_user_is_asked(self):
        with SyncClient(user=self.root, elicitation=accept(sure=True)) as client:
            result = client.call("admin_delete", model="shop.Product", pk=self.teapot.pk)
        result.assert_input_requested("Delete Teapot?")
        assert not Product.objects.filter(pk=self.teapot.pk).exists()

    def test_preview_is_confirmed(self):
        arguments = {"model": "shop.Product", "action": "restock", "pks": [self.teapot.pk]}
        with SyncClient(user=self.root) as client:
            preview = json.loads(client.call("admin_run_action", **arguments).text)
            arguments["confirm"] = preview["confirm"]
            done = json.loads(client.call("admin_run_action", **arguments).text)
        assert preview["preview"]["count"] == 1
        assert done == {"done": True, "messages": ["Ordered."]}


class OneSetTests(AdminToolTests):
    def test_schema_has_the_fields_of_the_form(self):
        with SyncClient("catalogue", user=self.root) as client:
            tools = {tool["name"]: tool for tool in client.list_tools()}
        schema = tools["admin_change_shop_product"]["inputSchema"]["properties"]["values"]
        assert [*schema["properties"]] == ["name", "price", "stock"]
