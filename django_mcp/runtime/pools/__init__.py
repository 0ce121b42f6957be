"""Pools of threads, for functions, for event loops and for the ORM calls of requests."""
