"""Callers: principals, permissions, scopes and selections of connections."""
