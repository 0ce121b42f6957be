"""The methods of notifications."""

from __future__ import annotations

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
