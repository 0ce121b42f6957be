"""``tool_search``: servers that list few of their tools, and let models find the others."""
