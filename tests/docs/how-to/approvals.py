# shop/tests.py
from django.contrib.auth.models import User
from django.test import Client, TestCase
from shop.models import Product

from django_mcp.contrib.approvals.models import Approval
from django_mcp.testing import SyncClient


class RestockTests(TestCase):
    def test_every_product_is_restocked_once_after_the_approval(self):
        ann = User.objects.create_user("ann")
        bob = User.objects.create_superuser("bob")
        Product.objects.create(name="Teapot", price="24.00", stock=3)
        capabilities = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        with SyncClient(user=ann, capabilities=capabilities) as client:
            arguments = {"name": "restock_all", "arguments": {"pieces": 2}}
            task = client.request("tools/call", arguments)
            assert task["status"] == "working", task
            approval = Approval.objects.get()
            browser = Client()
            browser.force_login(bob)
            form = {"decision": "approve", "digest": approval.digest}
            browser.post(f"/approvals/{approval.pk}/", form)
            result = client.call_tool("approval_status", {"id": str(approval.pk)})
            assert result.text == "1 products were restocked.", result
        assert Product.objects.get().stock == 5

    def test_few_pieces_need_no_approval(self):
        pk = Product.objects.create(name="Green tea", price="4.50", stock=12).pk
        with SyncClient(user=User.objects.create_user("ann")) as client:
            result = client.call_tool("give_away", {"pk": pk, "pieces": 2})
        self.assertEqual(result.text, "There are 10 pieces left.")
