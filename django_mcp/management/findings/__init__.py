"""The findings of ``mcp_doctor``: each function returns them for the answers of a server.

The requirements come from the specification, from RFC 8414, RFC 9728 and RFC 7591, and from known
demands of clients. Remedies name Django's settings; the servers may be of other frameworks.
"""
