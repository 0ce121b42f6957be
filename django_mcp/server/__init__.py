"""What an author declares: a Server, its options, components, hooks and notifications."""

from django_mcp.server.server import Keepalive, Server, ServerOptions, Signer

__all__ = ["Keepalive", "Server", "ServerOptions", "Signer"]
