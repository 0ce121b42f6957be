"""2025-11-25: icons, URL elicitation, richer forms, tools in sampling, polling, tasks."""

from django_mcp.core.protocol.revisions.base import Feature
from django_mcp.core.protocol.revisions.v2025_06_18 import V2025_06_18

V2025_11_25 = V2025_06_18.revise(
    "2025-11-25",
    adds={
        "capabilities": {"tasks": "list cancel requests"},
        "requests": "tasks/get tasks/result tasks/list tasks/cancel",
        "server_notifications": "notifications/elicitation/complete notifications/tasks/status",
        "fields": {
            "implementation": "description icons websiteUrl",
            "tool": "icons execution",
            "resource": "icons",
            "resource_template": "icons",
            "prompt": "icons",
            "resource_link_content": "icons",
            "elicitation/create": "mode url elicitationId",
            "sampling/createMessage": "tools toolChoice",
        },
        "sampling_blocks": "tool_use tool_result",
        "error_codes": {"url_elicitation_required": -32042},
        "features": {
            Feature.PRIMING_EVENTS,
            Feature.URL_ELICITATION,
            Feature.RICH_ELICITATION,
            Feature.SAMPLING_TOOLS,
            Feature.ARGUMENT_ERRORS_AS_RESULTS,
            Feature.TASKS,
        },
    },
)
