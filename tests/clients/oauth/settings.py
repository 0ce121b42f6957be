"""Settings of the example site for clients which publish their metadata on loopback."""

import os

from example_site.settings import *  # noqa: F403 - settings are extended in this way.
from example_site.settings import DJANGO_MCP, OAUTH2_PROVIDER

OAUTH2_PROVIDER["CIMD_METADATA_FETCHER"] = "tests.clients.oauth.fetcher.LoopbackMetadataFetcher"
# A token which a test has expired in the database is rejected by the next request.
DJANGO_MCP["TOKEN_CACHE_TTL"] = None
if base_url := os.environ.get("BASE_URL"):
    DJANGO_MCP["BASE_URL"] = base_url
if os.environ.get("OAUTH_ONLY"):
    DJANGO_MCP["AUTHENTICATORS"] = ["django_mcp.auth.oauth_toolkit.OAuthToolkitAuthentication"]
