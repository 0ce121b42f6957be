# shop/tests.py
from django.contrib.auth.models import User
from django.test import TestCase
from shop.models import Product

from django_mcp.testing import SyncClient

TABLE = {
    "download_url": "data:text/csv;base64,bmFtZSxzdG9jawpLZXR0bGUsNwo=",
    "file_id": "1",
}


class ImportTests(TestCase):
    def setUp(self):
        self.ann = User.objects.create_superuser("ann")

    def test_stock_is_imported(self):
        kettle = Product.objects.create(name="Kettle", price=20, stock=3)
        with SyncClient(user=self.ann) as client:
            assert client.call("import_stock", table=TABLE).text == "1"
        kettle.refresh_from_db()
        assert kettle.stock == 7

    def test_host_that_is_not_allowed_is_not_asked(self):
        file = {"download_url": "https://files.example/stock.csv", "file_id": "1"}
        with SyncClient(user=self.ann) as client:
            result = client.call_tool("import_stock", {"table": file})
        result.assert_error("accepts no files from files.example")
