"""One request, for its handler: the Frame and the values that it holds."""

from django_mcp.core.frame.cancellation import Cancellation
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.exchange import Exchange
from django_mcp.core.frame.frame import Frame, Private
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.frame.transport import HttpTransport, StdioTransport, Transport
from django_mcp.core.protocol.jsonrpc import RequestInfo

__all__ = [
    "Cancellation",
    "Change",
    "Client",
    "Exchange",
    "Frame",
    "HttpTransport",
    "Private",
    "RequestInfo",
    "Session",
    "StdioTransport",
    "Transport",
    "address",
]
