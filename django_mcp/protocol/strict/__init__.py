"""Checking what the server sends against the types of the protocol."""
