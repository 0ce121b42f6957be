"""The rules of MCP as pure functions, without Django, Channels, clocks or event loops.

Every rule returns a value or raises a named error. Input and output are left to the callers.
"""
