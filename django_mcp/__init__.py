"""django_mcp turns a Django project into an MCP server.

The path of a request through the package, which is also a good order to read it in:

``routing`` maps paths to servers; ``transports`` read messages and write responses. In ``core``,
``protocol`` defines messages and the revisions of MCP; ``frame`` is one request as its handler
sees it; ``dispatch`` answers it, with the methods of the protocol; ``server`` has the
``components``: tools, resources and prompts.

The names below are public. Importing them requires neither settings nor loaded apps.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from django_mcp.core.components.arguments import FileLimits, Lookup
from django_mcp.core.components.base import CacheHint, ConfigurationError
from django_mcp.core.components.prompt import Prompt
from django_mcp.core.components.resource import Resource, ResourceTemplate
from django_mcp.core.components.responses import Response
from django_mcp.core.components.serializers import register_serializer
from django_mcp.core.components.signature import Header
from django_mcp.core.components.tool import Approval, Tool
from django_mcp.core.frame.client import input_requests
from django_mcp.core.frame.client.base import McpDeprecationWarning
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    Message,
    ResourceLink,
    TextContent,
)
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    Cancelled,
    ClientError,
    InsufficientScope,
    InvalidParams,
    McpError,
    MissingClientCapability,
    ResourceNotFound,
    ToolError,
    UrlElicitationRequired,
)
from django_mcp.core.server.failures import register_exception
from django_mcp.core.server.server import Server
from django_mcp.runtime.django_types.fields import register_field_kind

if TYPE_CHECKING:
    from django_mcp.registry import prompt, resource, tool


def __getattr__(name: str) -> Any:
    """Return a decorator of the default server: its module cannot be imported before settings."""
    if name in ("tool", "resource", "prompt"):
        return getattr(import_module("django_mcp.registry"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Annotations",
    "Approval",
    "AudioContent",
    "AuthenticationRequired",
    "CacheHint",
    "Cancelled",
    "MissingClientCapability",
    "ClientError",
    "ConfigurationError",
    "EmbeddedResource",
    "FileLimits",
    "Frame",
    "Header",
    "Icon",
    "ImageContent",
    "InsufficientScope",
    "InvalidParams",
    "Lookup",
    "McpDeprecationWarning",
    "McpError",
    "Message",
    "Prompt",
    "Resource",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceTemplate",
    "Response",
    "Server",
    "TextContent",
    "Tool",
    "ToolError",
    "UrlElicitationRequired",
    "prompt",
    "input_requests",
    "register_exception",
    "register_field_kind",
    "register_serializer",
    "resource",
    "tool",
]
