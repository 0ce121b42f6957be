"""MCP Apps, extension ``io.modelcontextprotocol/ui``: views that a host shows in a sandbox."""
