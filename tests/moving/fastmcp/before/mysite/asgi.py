import os

from django.core.asgi import get_asgi_application
from fastmcp import FastMCP

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django_application = get_asgi_application()

from shop.models import Product

server = FastMCP("shop")


@server.tool
def find_products(text: str) -> list[dict]:
    """Find products by a part of their name."""
    return list(Product.objects.filter(name__icontains=text).values("id", "name"))


mcp_application = server.http_app(path="/mcp")


async def application(scope, receive, send):
    if scope["type"] == "lifespan" or scope["path"].startswith("/mcp"):
        await mcp_application(scope, receive, send)
    else:
        await django_application(scope, receive, send)
