"""The findings of ``mcp_doctor``: each function returns them for the answers of a server.

Requirements are those of the specification and of RFC 8414, RFC 9728 and RFC 7591, and what clients
are known to demand. Remedies name Django's settings; the servers may be of other frameworks.
"""
