"""bolt-mcp with the tools of the cases, in a Django project that django-bolt's own server runs."""

from bolt_mcp import MCP
from django_bolt import BoltAPI

SECRET_KEY = "only for measuring"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_bolt"]
BOLT_API = ["tests.benchmarks.peers.bolt:api"]
USE_TZ = True
LOGGING_CONFIG = None

server = MCP("bench", "1.0", stateless=True, json_response=True)


@server.tool  # type: ignore[untyped-decorator]
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool  # type: ignore[untyped-decorator]
def add_sync(a: int, b: int) -> int:
    """Add two numbers, in a synchronous handler."""
    return a + b


api = BoltAPI()
api.mount_mcp(server)
