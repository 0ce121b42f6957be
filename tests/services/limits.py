"""What the site and its tests agree on."""

LIMIT = 200
"""Calls that the server ``limited`` allows."""
