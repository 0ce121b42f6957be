from mcp_server import MCPToolset, ModelQueryToolset

from shop.models import Product


class ProductQuery(ModelQueryToolset):
    model = Product

    def get_queryset(self):
        return super().get_queryset().filter(stock__gt=0)


class Shop(MCPToolset):
    def find_products(self, text: str) -> list[dict]:
        """Find products by a part of their name."""
        found = Product.objects.filter(name__icontains=text)
        return list(found.values("id", "name"))
