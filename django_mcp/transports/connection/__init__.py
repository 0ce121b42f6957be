"""Transports whose messages share one connection: stdio, and HTTP+SSE of 2024."""
