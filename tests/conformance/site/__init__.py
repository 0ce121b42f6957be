"""A site with an authorization server for its MCP server, for the scenarios of these."""
