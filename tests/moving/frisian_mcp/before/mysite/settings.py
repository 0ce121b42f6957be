from mysite.base import *

INSTALLED_APPS += ["rest_framework", "frisian_mcp", "frisian_mcp.contrib.tokens"]
FRISIAN_MCP_AUTHENTICATION_CLASSES = [
    "frisian_mcp.contrib.tokens.authentication.FrisianMcpTokenAuthentication"
]
FRISIAN_MCP_PERMISSION_CLASSES = ["rest_framework.permissions.IsAuthenticated"]
FRISIAN_MCP_DISPATCH_GROUPS = {"shop": ["product"]}
