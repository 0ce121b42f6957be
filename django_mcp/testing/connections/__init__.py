"""The connections of a test client to its server, all in this process: memory, HTTP and stdio."""

from __future__ import annotations

from collections.abc import Mapping

from django_mcp.testing.connections.base import Connection
from django_mcp.testing.connections.http import HttpConnection
from django_mcp.testing.connections.memory import MemoryConnection
from django_mcp.testing.connections.stdio import StdioConnection

CONNECTIONS: Mapping[str, type[Connection]] = {
    kind.name: kind for kind in (MemoryConnection, HttpConnection, StdioConnection)
}
