"""Tests of your own server: a client in the same process.

Import this package after ``django.setup()``, as in every test. ``plugin`` needs pytest and is
imported by name.
"""

from django_mcp.testing.client import Client
from django_mcp.testing.input_answers import accept, cancel, decline
from django_mcp.testing.rendered_app import RenderedApp
from django_mcp.testing.results import CallResult, ErrorResponse
from django_mcp.testing.sync_client import SyncClient

__all__ = [
    "CallResult",
    "Client",
    "ErrorResponse",
    "RenderedApp",
    "SyncClient",
    "accept",
    "cancel",
    "decline",
]
