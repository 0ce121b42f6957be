from django.apps import apps
from django.conf import settings

from django_mcp import Server
from django_mcp.toolsets import ModelToolset
from shop.models import Product

if settings.DEBUG:
    dev = Server("dev", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @dev.tool(read_only=True)
    def list_models() -> list[str]:
        """The models of the project, with the names of their fields."""
        return [
            f"{model._meta.label}: {', '.join(field.name for field in model._meta.get_fields())}"
            for model in apps.get_models()
        ]


class Products(ModelToolset):
    """The products of the shop."""

    model = Product
    fields = ["id", "name", "price", "stock"]
