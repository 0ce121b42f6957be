"""Callers: principals, permissions, scopes and what a connection selects."""
