"""Approvals: an optional app for tool calls that wait until a person has approved them."""
