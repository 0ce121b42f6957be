"""What a handler sees of one request: the Frame and the values that it holds."""

from django_mcp.frame.cancellation import Cancellation
from django_mcp.frame.frame import Frame, Private
from django_mcp.frame.session import Session
from django_mcp.frame.transport import HttpTransport, StdioTransport, Transport
from django_mcp.protocol.jsonrpc import RequestInfo

__all__ = [
    "Cancellation",
    "Frame",
    "HttpTransport",
    "Private",
    "RequestInfo",
    "Session",
    "StdioTransport",
    "Transport",
]
