"""Streamable HTTP: one endpoint for POST, GET and DELETE."""
