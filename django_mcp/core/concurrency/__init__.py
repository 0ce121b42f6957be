"""Threads, coroutines and event loops, without Django and without MCP: any layer may use them."""
