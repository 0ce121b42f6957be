"""Tools, resources, resource templates and prompts.

A component is read from its declaration once, at registration, and can then be listed and called.
"""
