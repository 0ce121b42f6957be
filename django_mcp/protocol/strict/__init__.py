"""Strict mode: check messages of the server against their revision."""
