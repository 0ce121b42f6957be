# shop/tests.py
from django.contrib.auth import get_user_model
from django.test import TestCase
from notes.models import Note
from shop.models import Product

from django_mcp.testing import SyncClient


class ProductTests(TestCase):
    def setUp(self):
        self.ann = get_user_model().objects.create_superuser("ann")
        self.teapot = Product.objects.create(name="Teapot", price="24.00", stock=3)
        self.sold_out = Product.objects.create(name="Black tea", price="3.90", stock=0)

    def test_products_in_stock_are_listed(self):
        with SyncClient(user=self.ann) as client:
            page = client.call_tool("list_products", {"price__lt": 30}).structured
            hidden = client.call_tool("get_product", {"pk": self.sold_out.pk})
        assert [row["name"] for row in page["items"]] == ["Teapot"]
        assert hidden.text == f"There is no product {self.sold_out.pk}."

    def test_stock_is_unknown_to_filters(self):
        with SyncClient(user=self.ann) as client:
            result = client.call_tool("list_products", {"stock": 3})
        assert "stock: unknown argument" in result.text

    def test_update_changes_only_what_was_sent(self):
        with SyncClient(user=self.ann) as client:
            result = client.call_tool("update_product", {"pk": self.teapot.pk, "price": "25"})
        assert result.structured["name"] == "Teapot"
        assert result.structured["price"] == "25.00"

    def test_users_without_permission_see_no_tools_of_products(self):
        with SyncClient(user=get_user_model().objects.create_user("bob")) as client:
            assert not [tool for tool in client.list_tools() if "product" in tool["name"]]


class NoteTests(TestCase):
    def test_owner_is_the_caller_and_deleted_notes_are_kept(self):
        ann = get_user_model().objects.create_user("ann")
        with SyncClient(user=ann) as client:
            created = client.call_tool("create_note", {"text": "Buy tea"}).structured
            other = client.call_tool("create_note", {"text": "Buy tea", "owner": 1})
            client.call_tool("delete_note", {"pk": created["pk"]})
            assert client.call_tool("get_note", {"pk": created["pk"]}).is_error
        assert "owner: unknown argument" in other.text
        note = Note.objects.get(pk=created["pk"])
        assert note.owner == ann and note.is_deleted

    def test_nobody_without_a_login_sees_the_tools(self):
        with SyncClient() as client:
            assert client.list_tools() == []
