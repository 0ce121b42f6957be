"""The vocabulary of MCP: pure, without Django, Channels, clocks or event loops.

Everything here turns facts into a value or into a named error. Whoever calls it
gathers the facts and writes the bytes.
"""
