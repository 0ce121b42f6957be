# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase

from django_mcp.testing import SyncClient


class ApiTests(TestCase):
    def test_the_result_is_that_of_the_api(self):
        user = User.objects.create_user("ada")
        self.client.force_login(user)
        with SyncClient(user=user) as client:
            result = client.call_tool("list_products", {"search": "tea"})
        assert result.structured == self.client.get("/api/products?search=tea").json()

    def test_a_write_answers_with_what_was_sent(self):
        with SyncClient(user=User.objects.create_user("ada")) as client:
            result = client.call_tool("create_product", {"name": "Cup", "price": 3})
        assert result.structured.keys() == {"id", "name", "price"}
