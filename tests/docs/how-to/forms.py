# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient


class FormTests(TestCase):
    def test_valid_form_is_saved_once(self):
        with SyncClient(user=User.objects.create_superuser("ada")) as client:
            result = client.call_tool("product", {"name": "Cup", "price": 3.5})
            again = client.call_tool("product", {"name": "cup", "price": 4})
        cup = Product.objects.get(name="Cup")
        assert result.structured == {"pk": cup.pk, "text": "Cup"}
        assert again.text == "The form is not valid.\nname: There is a product of this name."

    def test_other_forms_call_a_function(self):
        with SyncClient() as client:
            result = client.call_tool("contact", {"subject": "order", "text": "Where is it?"})
        assert result.text == "Sent: Where is it?"
