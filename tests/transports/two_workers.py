"""Settings of the example site for two processes which share a channel layer and a database."""

from example_site.settings import *  # noqa: F403 - settings are extended in this way.
from example_site.settings import DJANGO_MCP

DJANGO_MCP["AUTHENTICATORS"] = ["django_mcp.auth.public.Public"]
DJANGO_MCP["HTTP_SSE"] = True
