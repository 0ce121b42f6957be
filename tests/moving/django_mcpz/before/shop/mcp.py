import msgspec
from django_mcpz.server import MCPServer, public

from shop.models import Product

server = MCPServer(name="shop", version="1.0", instructions="The shop.", auth=public)


class Search(msgspec.Struct):
    text: str


@server.tool(description="Find products by a part of their name.", read_only=True)
def find_products(request, params: Search) -> dict:
    found = Product.objects.filter(name__icontains=params.text)
    return {"products": list(found.values("id", "name"))}
