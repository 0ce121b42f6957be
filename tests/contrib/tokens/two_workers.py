"""Settings of the example site for two processes which accept only personal access tokens."""

from tests.transports.two_workers import *  # noqa: F403 - settings are extended in this way.
from tests.transports.two_workers import DJANGO_MCP

DJANGO_MCP["AUTHENTICATORS"] = ["django_mcp.auth.token.TokenAuthentication"]
DJANGO_MCP["SCOPES"] = []
# Longer than the test: only a message of another process empties the caches.
DJANGO_MCP["TOKEN_CACHE_TTL"] = 600
