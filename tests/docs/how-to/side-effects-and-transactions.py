# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient


class RestockTests(TestCase):
    def test_all_products_are_restocked_or_none(self):
        tea = Product.objects.create(name="Green tea", price="4.50", stock=12)
        unknown = tea.pk + 1
        ada = get_user_model().objects.create_superuser("ada")
        with SyncClient(user=ada) as client:
            failed = client.call("restock_all", pks=[tea.pk, unknown], count=5)
            failed.assert_error(f"There is no product {unknown}. Nothing was changed.")
            self.assertEqual(Product.objects.get(pk=tea.pk).stock, 12)
            client.call("restock_all", pks=[tea.pk], count=5).assert_text("1 products")
