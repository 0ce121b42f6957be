# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient, accept, decline


class OrderTests(TestCase):
    def setUp(self):
        self.ann = User.objects.create_user("ann")
        Product.objects.create(name="Teapot", price="24.00", stock=3)

    def test_handlers_work_with_and_without_sessions(self):
        for version in ("2025-11-25", "2026-07-28"):
            options = {"user": self.ann, "version": version}
            with SyncClient(**options, elicitation=accept(pieces=3)) as client:
                result = client.call_tool("order", {"name": "Teapot"})
                assert result.text == "Ordered 3 pieces of Teapot."
            with SyncClient(**options, elicitation=decline()) as client:
                assert client.call_tool("order", {"name": "Teapot"}).is_error

    def test_two_forms_are_answered(self):
        def respond(request):
            is_amount = "many" in request["message"]
            return accept(pieces=2) if is_amount else accept(street="Main", town="Leeds")

        with SyncClient(user=self.ann, elicitation=respond) as client:
            assert client.call_tool("send_home").text == "Sent 2 pieces to Leeds."
