"""A small host of MCP Apps on this machine, in which an author sees a view of their tool."""
