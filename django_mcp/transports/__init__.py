"""Transports: a folder for each family, and modules that they share.

The names below are for transports of other packages.
"""

from django_mcp.core.dispatch import handle
from django_mcp.core.protocol import jsonrpc, request_meta
from django_mcp.core.protocol.revisions import NEWEST

__all__ = ["NEWEST", "handle", "jsonrpc", "request_meta"]
