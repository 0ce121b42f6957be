"""The module that django_mcp discovers; it imports the modules that register components.

The conformance suite prescribes the names, texts and schemas: they are no examples of good style.
"""

from django_mcp.contrib.skills import skill
from example_site.conformance import input_requests, notifications, prompts, resources, tasks, tools
from example_site.conformance.server import conformance

__all__ = [
    "conformance",
    "input_requests",
    "notifications",
    "prompts",
    "resources",
    "tasks",
    "tools",
]

skill("checklist", server=conformance)
