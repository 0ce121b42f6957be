import os

from django.core.asgi import get_asgi_application
from mcp.server import MCPServer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django_application = get_asgi_application()

from shop.models import Product

server = MCPServer("shop")


@server.tool()
def find_products(text: str) -> list[dict]:
    """Find products by a part of their name."""
    return list(Product.objects.filter(name__icontains=text).values("id", "name"))


mcp_application = server.streamable_http_app()


async def application(scope, receive, send):
    if scope["type"] == "lifespan" or scope["path"].startswith("/mcp"):
        await mcp_application(scope, receive, send)
    else:
        await django_application(scope, receive, send)
