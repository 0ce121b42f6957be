"""Servers as authors declare them: their options, components, hooks and notifications."""

from django_mcp.core.server.options import Keepalive, ServerOptions, Signer
from django_mcp.core.server.server import Server

__all__ = ["Keepalive", "Server", "ServerOptions", "Signer"]
