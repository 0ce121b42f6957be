"""Settings of the example site for two processes that share a channel layer and a database."""

import os

from example_site.settings import *  # noqa: F403 - settings are extended in this way.
from example_site.settings import CHANNEL_LAYERS, DJANGO_MCP

DJANGO_MCP["AUTHENTICATORS"] = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
DJANGO_MCP["HTTP_SSE"] = True

if "LAYER_PREFIX" in os.environ:
    # A prefix separates tests that use the same Redis concurrently.
    CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = os.environ["LAYER_PREFIX"]
