from django_mcp import tool
from django_mcp.toolsets import ModelToolset
from shop.models import Product


class Products(ModelToolset):
    """The products that are in stock."""

    model = Product
    operations = ["list", "get", "count", "aggregate"]
    fields = ["id", "name", "price"]
    filter_fields = {"price": ["gte", "lt"], "name": ["icontains"]}
    aggregate_fields = {"price": ["min", "max", "avg"]}

    def get_queryset(self, frame):
        return Product.objects.filter(stock__gt=0)


@tool(read_only=True)
def find_products(text: str):
    """Find products by a part of their name."""
    return Product.objects.filter(name__icontains=text).values("id", "name")
