"""Tests of your own server: a client in the same process, and contracts for stores.

Import this package after ``django.setup()``, as in every test. ``contracts`` and ``plugin`` need
pytest and are imported by name.
"""

from django_mcp.testing.client import Client, ErrorResponse, SyncClient, accept, cancel, decline

__all__ = ["Client", "ErrorResponse", "SyncClient", "accept", "cancel", "decline"]
