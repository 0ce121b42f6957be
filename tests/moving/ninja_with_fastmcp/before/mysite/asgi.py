import json
import os

import httpx2
from django.core.asgi import get_asgi_application
from fastmcp import FastMCP

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django_application = get_asgi_application()

from shop.api import api

client = httpx2.AsyncClient(
    transport=httpx2.ASGITransport(app=django_application),
    base_url="http://localhost",
    headers={"Authorization": "Bearer secret"},
)
document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
server = FastMCP.from_openapi(document, client=client, name="shop")
mcp_application = server.http_app(path="/mcp")


async def application(scope, receive, send):
    if scope["type"] == "lifespan" or scope["path"].startswith("/mcp"):
        await mcp_application(scope, receive, send)
    else:
        await django_application(scope, receive, send)
