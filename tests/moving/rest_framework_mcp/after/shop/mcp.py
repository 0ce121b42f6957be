from django_mcp.rest import rest_tools
from shop.api import ProductViewSet

rest_tools(ProductViewSet, actions=["list", "retrieve"])
