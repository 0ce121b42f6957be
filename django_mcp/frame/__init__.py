"""What a handler sees of one request: the Frame and the values that it holds."""

from django_mcp.frame.frame import (
    Frame,
    HttpTransport,
    Private,
    RequestInfo,
    StdioTransport,
    Transport,
)

__all__ = ["Frame", "HttpTransport", "Private", "RequestInfo", "StdioTransport", "Transport"]
