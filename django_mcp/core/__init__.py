"""The core: the protocol and its revisions, components, the Frame, servers and the dispatcher.

It knows neither Django nor Channels, nor what this package has around it. Its names are imported
from the modules at the root: ``django_mcp``, ``django_mcp.frame``, ``django_mcp.auth``.
"""
