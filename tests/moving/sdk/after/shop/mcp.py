from django_mcp import tool
from shop.models import Product


@tool(read_only=True)
def find_products(text: str):
    """Find products by a part of their name."""
    return Product.objects.filter(name__icontains=text).values("id", "name")
